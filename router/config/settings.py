"""What every block of settings is."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Settings(BaseModel):
    """A block of settings: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
