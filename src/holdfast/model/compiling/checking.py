"""Whether a class can be compiled, said with file, line and the way out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.errors import DefinitionError
from holdfast.model.compiling.functions import NotKnownYet
from holdfast.model.compiling.kinds import CannotCompile
from holdfast.model.compiling.program import Program
from holdfast.model.layout import NoLayout, slots_of

if TYPE_CHECKING:
    from holdfast.model.agent import Agent
    from holdfast.model.annotations import Body


def check_fields(agent: type[Agent], body: Body) -> None:
    """While the class is made, each field has a line of its own."""
    schema = agent.__holdfast__.schema
    for field in schema.fields:
        try:
            slots_of(replace(schema, fields=(field,)))
        except NoLayout as reason:
            raise body.place(field.name).error(str(reason)) from None


def check_compiles(agent: type[Agent], *, final: bool) -> None:
    """Before it is `final`, names that are defined below the class are waited for."""
    try:
        Program(agent, final=final)
    except NotKnownYet:
        pass
    except CannotCompile as error:
        place = agent.__holdfast__.place
        raise DefinitionError(
            f"{error.file or place.file}:{error.line or place.line}: {agent.__name__} is compiled: "
            f"{error.message}"
        ) from None
