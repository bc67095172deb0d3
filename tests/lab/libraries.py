"""scikit-learn and what comes with it: 100 MB that only training needs."""

from typing import Any


class CannotFit(Exception):
    """There is too little data to fit, or nothing to fit it with."""


def load_libraries() -> tuple[Any, Any, Any]:
    """Linear models, sparse matrices, numpy. Raises `CannotFit`."""
    try:
        import numpy
        from scipy import sparse
        from sklearn import linear_model
    except ImportError as error:
        raise CannotFit("training needs scikit-learn\n  hint: make setup") from error
    return linear_model, sparse, numpy
