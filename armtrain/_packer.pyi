from array import array

MAX_BUFFERS: int

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
