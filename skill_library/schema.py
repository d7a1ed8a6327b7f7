"""The Arrow schema of the evidence, made from the row models: every file of a dataset is written with it."""

from __future__ import annotations

import functools
import json
import types
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pyarrow as pa
from pydantic import AwareDatetime

from skill_library.records import MODELS, SCHEMA_VERSION, Dataset


@functools.cache
def arrow_schema(dataset: Dataset) -> pa.Schema:
    """The schema that every file of a dataset is written with.

    All columns are nullable: a column added later is unknown in older rows, whatever the model says of new ones.
    Raises TypeError for a field of a type that has no flat column.
    """
    fields = [pa.field(name, arrow_type(field.annotation)) for name, field in MODELS[dataset].model_fields.items()]
    schema = pa.schema(fields)
    return schema.with_metadata(
        {"klineage_schema": str(SCHEMA_VERSION), "klineage_dataset": dataset, "pandas": _pandas_metadata(schema)}
    )


_SCALARS: dict[object, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    datetime: pa.timestamp("us", tz="UTC"),
}


def arrow_type(annotation: Any) -> pa.DataType:
    """The column type of a field's annotation. Raises TypeError where it has no flat column."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return arrow_type(arguments[0] if arguments[0] is not AwareDatetime else datetime)
    if annotation is AwareDatetime:
        return _SCALARS[datetime]
    if origin in (Union, types.UnionType):
        known = [argument for argument in arguments if argument is not types.NoneType]
        if len(known) == 1:
            return arrow_type(known[0])
    if origin is Literal and all(isinstance(argument, str) for argument in arguments):
        return pa.string()
    if isinstance(annotation, type) and issubclass(annotation, Enum) and issubclass(annotation, str):
        return pa.string()
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis and arguments[0] in (str, int, float):
        return pa.list_(_SCALARS[arguments[0]])
    raise TypeError(f"a field of type {annotation} has no flat column; store JSON text")


def _pandas_metadata(schema: pa.Schema) -> str:
    """Makes plain pandas keep whole numbers and truth values with gaps (Int64, boolean) instead of float and object."""
    kinds = {pa.int64(): ("int64", "Int64"), pa.bool_(): ("bool", "boolean")}
    columns = []
    for field in schema:
        if field.type in kinds:
            plain, extension = kinds[field.type]
            names = {"name": field.name, "field_name": field.name}
            columns.append({**names, "pandas_type": plain, "numpy_type": extension, "metadata": None})
    return json.dumps({"index_columns": [], "column_indexes": [], "columns": columns})
