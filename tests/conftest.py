"""Settings for every property test: machines differ, so slowness is no failure; seeds are shown."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "holdfast", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("holdfast")
