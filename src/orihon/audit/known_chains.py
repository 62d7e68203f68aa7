"""Which chains there must be: the catalogue knows each that was ever begun, so that none can just be deleted."""

from __future__ import annotations

import logging
from pathlib import Path

from orihon.catalogue.connect import catalogue_exists, open_catalogue
from orihon.errors import OrihonError
from orihon.settings import Settings

logger = logging.getLogger("orihon.audit")


def note_chain(base_dir: Path, settings: Settings, chain: str) -> None:
    """A chain was begun. After its first record: one that a crash kept from being begun must not be missed."""
    try:
        if catalogue_exists(base_dir, settings):
            with open_catalogue(base_dir, settings) as catalogue:
                catalogue.counters.note_chain(chain)
    except OrihonError as error:  # what was recorded is done, and can be proved without it
        logger.warning("the audit's chain %s could not be noted in the catalogue: %s", chain, error)


def known_chains(base_dir: Path, settings: Settings) -> set[str]:
    """The chains that were ever begun, as far as the catalogue can be asked."""
    try:
        if catalogue_exists(base_dir, settings):
            with open_catalogue(base_dir, settings) as catalogue:
                return catalogue.counters.noted_chains()
    except OrihonError as error:
        logger.warning("the catalogue cannot tell which chains the audit has: %s", error)
    return set()
