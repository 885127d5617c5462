package bench;

/** The state of a drone. */
public final class Drone {
    public boolean landing;
    public double lat, lon, alt;
    public long moves;
    public double battery = 100.0;
    public long beats;
    public long warnings;
    public double closest = 1.0;
    public long deadline; // of the watchdog, in milliseconds; 0: none

    Drone copy() {
        Drone other = new Drone();
        other.landing = landing;
        other.lat = lat;
        other.lon = lon;
        other.alt = alt;
        other.moves = moves;
        other.battery = battery;
        other.beats = beats;
        other.warnings = warnings;
        other.closest = closest;
        other.deadline = deadline;
        return other;
    }
}
