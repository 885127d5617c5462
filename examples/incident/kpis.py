"""A figure for `holdfast fork --kpi`: how many landings there were, and how many drones landed."""

from collections.abc import Iterable

from holdfast import IssuedAction


def landings(actions: Iterable[IssuedAction]) -> dict[str, float]:
    drones = [each.key for each in actions if type(each.action).__name__ == "Land"]
    return {"landings": len(drones), "drones that landed": len(set(drones))}
