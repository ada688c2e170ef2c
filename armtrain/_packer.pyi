from array import array

MAX_BUFFERS: int

def place(
    lower: array[int],
    upper: array[int],
    size: array[int],
    order: array[int],
    best_fit: bool,
    offset: array[int],
) -> None: ...
def search(
    start: array[int],
    stop: array[int],
    size: array[int],
    rank: array[int],
    n_sections: int,
    capacity: int,
    node_limit: int,
    offset: array[int],
) -> tuple[int, int]: ...
