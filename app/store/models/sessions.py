"""The table of sessions of browsers."""

from sqlalchemy.orm import Mapped, mapped_column

from .base import Base


class SessionRow(Base):
    """The session of a browser that has presented the token. hash: of the secret in its cookie. realm: identifies the
    token."""

    __tablename__ = "sessions"

    hash: Mapped[str] = mapped_column(primary_key=True)
    realm: Mapped[str]
    began: Mapped[float]
    expires: Mapped[float]
    address: Mapped[str]
    agent: Mapped[str]
