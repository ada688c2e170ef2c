"""Small programs written by hand, and plans of them: inputs for tests that need no front end."""

from __future__ import annotations

from math import prod, sqrt

from armtrain.dtypes import STACK_BYTES, DType
from armtrain.ir.ops import OpCode, spec_of
from armtrain.ir.program import (
    Init,
    InitKind,
    Layout,
    Phase,
    Program,
    Role,
    Step,
    StorageId,
    Tensor,
    TensorId,
)
from armtrain.ir.workspace import workspace_bytes

Attrs = dict[str, int | float]


class ProgramBuilder:
    """Adds tensors and steps one by one; one storage per tensor unless told otherwise."""

    def __init__(self, batch_size: int, threads: int = 1) -> None:
        self.batch_size = batch_size
        self.threads = threads
        self.phase = Phase.TRAIN
        self.tensors: list[Tensor] = []
        self.steps: list[Step] = []
        self._storages = 0

    def tensor(
        self,
        name: str,
        role: Role,
        dims: tuple[int, ...],
        *,
        dtype: DType = DType.F32,
        batched: bool = False,
        layout: Layout | None = None,
        init: Init | None = None,
        same_as: TensorId | None = None,
    ) -> TensorId:
        """Append a tensor; `same_as` shares the storage of an earlier one."""
        if same_as is None:
            storage = StorageId(self._storages)
            self._storages += 1
        else:
            storage = self.tensors[same_as].storage
        identifier = TensorId(len(self.tensors))
        layout = layout or Layout.plain(dims)
        self.tensors.append(
            Tensor(identifier, name, role, dtype, dims, batched, storage, layout, init or Init())
        )
        return identifier

    def step(
        self, op: OpCode, layer: str, kind: str, attrs: Attrs | None = None, **operands: TensorId
    ) -> None:
        """Append a step; a needed workspace tensor is added on its own."""
        spec = spec_of(op)
        attrs = attrs or {}
        values = tuple(attrs.get(a.name, 0.0 if a.kind == "f" else 0) for a in spec.attrs)
        ids = [operands.get(slot.name) for slot in spec.operands]
        dims = tuple(None if i is None else self.tensors[i].dims for i in ids)
        need = workspace_bytes(op, dims, values, self.threads)
        if need and "ws" in spec.operand_index:
            name = f"{layer}/workspace{len(self.steps)}"
            ids[spec.operand_index["ws"]] = self.tensor(
                name, Role.WORKSPACE, (need,), dtype=DType.U8
            )
        self.steps.append(Step(op, self.phase, tuple(ids), values, layer, kind))

    def linear_weights(self, name: str, inputs: int, outputs: int) -> tuple[TensorId, TensorId]:
        """Append the weight and bias of a linear layer."""
        bound = 1.0 / sqrt(inputs)
        init = Init(InitKind.UNIFORM, -bound, bound)
        layout = Layout((outputs, inputs), (outputs, inputs), (1, 0))
        weight = self.tensor(
            f"{name}.weight", Role.WEIGHT, (inputs, outputs), layout=layout, init=init
        )
        return weight, self.tensor(f"{name}.bias", Role.WEIGHT, (outputs,), init=init)

    def stacks(self) -> None:
        """Append the stacks of the worker threads."""
        if self.threads > 1:
            size = (self.threads - 1) * STACK_BYTES
            self.tensor("stacks", Role.STACK, (size,), dtype=DType.U8)

    def program(
        self, model_text: str, loss: str, optimizer: str, input_shape: tuple[int, ...]
    ) -> Program:
        """Return the finished program."""
        return Program(
            tuple(self.tensors),
            tuple(self.steps),
            model_text,
            self.batch_size,
            self.threads,
            loss,
            optimizer,
            None,
            input_shape,
        )


def linear_regression(batch_size: int = 4, features: int = 3) -> Program:
    """Return y = x w + b with the mean squared error and plain SGD."""
    b = ProgramBuilder(batch_size)
    weight, bias = b.linear_weights("0", features, 1)
    attrs: Attrs = {"lr": 0.1}

    def forward(prefix: str, role: Role) -> tuple[TensorId, TensorId]:
        x = b.tensor(f"{prefix}input", Role.INPUT, (batch_size, features), batched=True)
        y = b.tensor(f"{prefix}0.y", role, (batch_size, 1), batched=True)
        b.step(OpCode.LINEAR_FWD, "0", "F", x=x, w=weight, b=bias, y=y)
        return x, y

    def loss(prefix: str) -> tuple[TensorId, TensorId]:
        target = b.tensor(f"{prefix}target", Role.TARGET, (batch_size, 1), batched=True)
        return target, b.tensor(f"{prefix}loss", Role.METRIC, (1,), dtype=DType.F64)

    x, y = forward("", Role.ACTIVATION)
    target, value = loss("")
    dy = b.tensor("0.dy", Role.DERIVATIVE, (batch_size, 1), batched=True, same_as=y)
    b.step(OpCode.MSE_GRAD, "loss", "L", y=y, target=target, loss=value, dy=dy)
    dw = b.tensor("0.weight.grad", Role.GRADIENT, (features, 1))
    db = b.tensor("0.bias.grad", Role.GRADIENT, (1,))
    b.step(OpCode.LINEAR_GRAD_W, "0", "CG", x=x, dy=dy, dw=dw, db=db)
    b.step(OpCode.SGD_STEP, "0", "AG", attrs, w=weight, g=dw)
    b.step(OpCode.SGD_STEP, "0", "AG", attrs, w=bias, g=db)
    b.phase = Phase.EVALUATE
    _, y = forward("evaluate/", Role.ACTIVATION)
    target, value = loss("evaluate/")
    b.step(OpCode.MSE_EVAL, "loss", "L", y=y, target=target, loss=value)
    b.phase = Phase.PREDICT
    forward("predict/", Role.OUTPUT)
    text = f"input {batch_size}x{features}\n0 linear {features} 1 trained\n"
    return b.program(text, "mse", "sgd:lr=0.1", (features,))


class _Mlp:
    """Builds a classifier of linear layers with ReLU between them, SGD with momentum."""

    def __init__(
        self, sizes: tuple[int, ...], batch_size: int, threads: int, optimizer: str
    ) -> None:
        self.b = ProgramBuilder(batch_size, threads)
        self.sizes = sizes
        self.adam = optimizer == "adam"
        self.names = [str(2 * i) for i in range(len(sizes) - 1)]
        self.parameters = [
            self.b.linear_weights(n, i, o)
            for n, i, o in zip(self.names, sizes, sizes[1:], strict=False)
        ]
        suffixes = ("exp_avg", "exp_avg_sq") if self.adam else ("momentum",)
        self.states = {
            p: [self._state(p, suffix) for suffix in suffixes]
            for pair in self.parameters
            for p in pair
        }

    def _state(self, parameter: TensorId, suffix: str) -> TensorId:
        like = self.b.tensors[parameter]
        return self.b.tensor(
            f"{like.name}/{suffix}",
            Role.STATE,
            like.dims,
            layout=like.layout,
            init=Init(InitKind.CONSTANT, 0.0),
        )

    def forward(self, prefix: str) -> tuple[list[TensorId], TensorId]:
        """Append the forward steps; return every linear layer's input and the logits."""
        b, n = self.b, self.b.batch_size
        x = b.tensor(f"{prefix}input", Role.INPUT, (n, self.sizes[0]), batched=True)
        inputs = []
        for i, name in enumerate(self.names):
            inputs.append(x)
            last = i + 1 == len(self.names)
            role = Role.OUTPUT if last and b.phase == Phase.PREDICT else Role.ACTIVATION
            y = b.tensor(f"{prefix}{name}.y", role, (n, self.sizes[i + 1]), batched=True)
            weight, bias = self.parameters[i]
            b.step(OpCode.LINEAR_FWD, name, "F", x=x, w=weight, b=bias, y=y)
            if not last:
                layer = str(2 * i + 1)
                x = b.tensor(
                    f"{prefix}{layer}.y", role, (n, self.sizes[i + 1]), batched=True, same_as=y
                )
                b.step(OpCode.RELU_FWD, layer, "F", x=y, y=x)
        return inputs, y

    def loss(self, prefix: str, logits: TensorId) -> TensorId | None:
        """Append the loss step; return the gradient of the logits while training."""
        b, n = self.b, self.b.batch_size
        target = b.tensor(f"{prefix}target", Role.TARGET, (n,), dtype=DType.I32, batched=True)
        value = b.tensor(f"{prefix}loss", Role.METRIC, (1,), dtype=DType.F64)
        if b.phase == Phase.TRAIN:
            dy = b.tensor(
                "dlogits", Role.DERIVATIVE, b.tensors[logits].dims, batched=True, same_as=logits
            )
            b.step(
                OpCode.CROSS_ENTROPY_GRAD, "loss", "L",
                logits=logits, target=target, loss=value, dlogits=dy,
            )  # fmt: skip
            return dy
        correct = b.tensor(f"{prefix}correct", Role.METRIC, (1,), dtype=DType.I64)
        b.step(
            OpCode.CROSS_ENTROPY_EVAL, "loss", "L",
            logits=logits, target=target, loss=value, correct=correct,
        )  # fmt: skip
        return None

    def backward(self, inputs: list[TensorId], dy: TensorId) -> None:
        """Append gradients, derivatives and updates, last layer first."""
        b = self.b
        for i in reversed(range(len(self.names))):
            name, x = self.names[i], inputs[i]
            grads = [
                b.tensor(f"{b.tensors[p].name}.grad", Role.GRADIENT, b.tensors[p].dims)
                for p in self.parameters[i]
            ]
            b.step(OpCode.LINEAR_GRAD_W, name, "CG", x=x, dy=dy, dw=grads[0], db=grads[1])
            old = dy
            if i:
                dims = b.tensors[x].dims
                dx = b.tensor(f"{name}.dx", Role.DERIVATIVE, dims, batched=True)
                weight = self.parameters[i][0]
                b.step(OpCode.LINEAR_GRAD_X, name, "CD", dy=old, w=weight, dx=dx)
            for parameter, grad in zip(self.parameters[i], grads, strict=True):
                self.update(name, parameter, grad)
            if i:
                layer = str(2 * i - 1)
                dy = b.tensor(f"{layer}.dx", Role.DERIVATIVE, dims, batched=True, same_as=dx)
                b.step(OpCode.RELU_GRAD, layer, "CD", y=x, dy=dx, dx=dy)

    def update(self, layer: str, parameter: TensorId, grad: TensorId) -> None:
        """Append one optimiser step."""
        state = self.states[parameter]
        if self.adam:
            attrs: Attrs = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
            self.b.step(
                OpCode.ADAM_STEP, layer, "AG", attrs, w=parameter, g=grad, m=state[0], v=state[1]
            )
        else:
            attrs = {"lr": 0.05, "momentum": 0.9}
            self.b.step(OpCode.SGD_STEP, layer, "AG", attrs, w=parameter, g=grad, momentum=state[0])

    def build(self) -> Program:
        """Return the program of all three phases."""
        b = self.b
        b.stacks()
        inputs, logits = self.forward("")
        dy = self.loss("", logits)
        assert dy is not None
        self.backward(inputs, dy)
        b.phase = Phase.EVALUATE
        self.loss("evaluate/", self.forward("evaluate/")[1])
        b.phase = Phase.PREDICT
        self.forward("predict/")
        text = f"input {b.batch_size}x{self.sizes[0]}\n" + "".join(
            f"{n} linear {i} {o} trained\n"
            for n, i, o in zip(self.names, self.sizes, self.sizes[1:], strict=False)
        )
        optimizer = "adam:lr=0.001" if self.adam else "sgd:lr=0.05,momentum=0.9"
        return b.program(text, "cross_entropy", optimizer, (self.sizes[0],))


def mlp_classifier(
    sizes: tuple[int, ...] = (8, 16, 3),
    batch_size: int = 6,
    threads: int = 2,
    optimizer: str = "sgd",
) -> Program:
    """Return linear layers of `sizes` with ReLU between, cross-entropy, SGD+momentum or Adam."""
    return _Mlp(sizes, batch_size, threads, optimizer).build()


def element_count(program: Program) -> int:
    """Return the trained elements of a program."""
    return sum(prod(t.dims) for t in program.tensors if t.role is Role.WEIGHT)
