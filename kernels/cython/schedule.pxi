"""What follows time or measured values: learning rates, and the memory of a run's epochs."""


cdef art_schedule _schedule(str word, values, milestones, per_step) except *:
    """Return a schedule."""
    cdef art_schedule schedule
    memset(&schedule, 0, sizeof(schedule))
    encoded = word.encode()
    schedule.kind = art_schedule_find(encoded)
    known = schedule.kind != NULL
    if not known or len(values) > ART_SCHEDULE_VALUES or len(milestones) > ART_SCHEDULE_MILESTONES:
        given = f"{len(values)} values and {len(milestones)} times"
        raise ShapeError(f"no schedule '{word}' of {given}")
    schedule.per_step = per_step
    schedule.n_milestones = len(milestones)
    for i, value in enumerate(values):
        schedule.values[i] = value
    for i, value in enumerate(milestones):
        schedule.milestones[i] = value
    return schedule


def schedule_scale(str word, values, milestones, per_step, epoch, step, plateau=1.0):
    """Return the factor of the learning rates after `epoch` complete epochs and `step` steps."""
    cdef art_schedule schedule = _schedule(word, values, milestones, per_step)
    return art_schedule_scale(&schedule, epoch, step, plateau)


def new_monitor():
    """Return the memory of a new run as a dict."""
    return art_monitor_fresh()


def monitor_epoch(memory, quantity, value, epoch, plateau=None):
    """Return the memory after another epoch, and whether its value is the best."""
    cdef art_schedule schedule
    cdef art_monitor state = memory
    cdef const art_schedule *follower = NULL
    if plateau is not None:
        schedule = _schedule("plateau", plateau, (), False)
        follower = &schedule
    better = art_monitor_epoch(&state, quantity, value, epoch, follower)
    return state, better


def monitor_exhausted(memory, quantity, epoch, patience):
    """Return whether no value was as good as the best for `patience` epochs."""
    cdef art_monitor state = memory
    return art_monitor_exhausted(&state, quantity, epoch, patience)
