"""The views' process: `python -m holdfast.runtime.viewing.process FLEET URL FOLDER PIPE`.

Started by the supervisor, never by hand; an empty FOLDER is the usual one. It runs user code, the
handlers of views, so that what they do wrong ends no worker.
"""

from __future__ import annotations

import threading

from holdfast.engine.urls import open_engine
from holdfast.runtime.loading import load_fleet
from holdfast.runtime.supervised import attend, serve, when_told_to_finish
from holdfast.runtime.viewing.running import Views
from holdfast.runtime.viewing.shelf import views_folder


def run(reference: str, url: str, folder: str, pipe: str) -> int:
    attend(pipe)
    fleet = load_fleet(reference)
    engine = open_engine(url, None)
    views = Views(engine, fleet.views.values(), views_folder(engine, folder or None))
    stopping = threading.Event()
    when_told_to_finish(stopping.set)
    stopping.wait()
    views.stop()
    engine.close()
    return 0


if __name__ == "__main__":
    serve(run, fleet_goes_on_without="views")
