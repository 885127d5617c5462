"""Goal: a column of equal values is stored as one, and only where they are equal to the bit."""

import numpy as np
import pytest

from holdfast.model.layout import Slot
from holdfast.stepping.columns import field_columns, read_fields
from holdfast.stepping.compiled.storing import arrays_from
from holdfast.stepping.frame import Frame


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.5, 1.5, 1.5], "const"),
        ([float("nan")] * 3, "const"),
        ([-0.0, -0.0, -0.0], "const"),
        ([0.0, -0.0, 0.0], "f64"),
        ([1.5, 2.5, 1.5], "f64"),
        ([1.5], "const"),
    ],
)
def test_equal_to_the_bit(values: list[float], kind: str) -> None:
    slots = (Slot("alt", "float"),)
    records = np.zeros(len(values), [("version", "<i8"), ("f_alt", "<f8")])
    records["f_alt"] = values
    columns = field_columns("c.", slots, arrays_from(slots, records, "f_"))
    assert columns["c.alt"].kind == kind
    (found,) = read_fields(Frame(len(values), columns), "c.", slots, len(values))
    assert isinstance(found, np.ndarray)
    assert found.tobytes() == records["f_alt"].tobytes()
