"""Tell a worker's children that its shutdown has begun; they get no signal of their own.

Source: celery_hooks experiments, docs/decisions/0002.
"""

import mmap

# Anonymous shared memory, made before the pool forks: every child inherits it, recycled ones too.
_flag = mmap.mmap(-1, 1)


def begin() -> None:
    """Note that this worker takes nothing new."""
    _flag[0] = 1


def has_begun() -> bool:
    """Tell whether this worker is stopping."""
    return _flag[0] == 1
