package bench;

/** Any event of the stream, and a message (Warned); `a`, `b`, `c` are what its kind needs. */
public final class Event {
    public String key = "";
    public byte kind;
    public double a, b, c;
    public String peer = "";

    static Event warned(String key, double distance) {
        Event event = new Event();
        event.key = key;
        event.kind = Stream.WARNED;
        event.a = distance;
        return event;
    }

    Event copy() {
        Event other = new Event();
        other.key = key;
        other.kind = kind;
        other.a = a;
        other.b = b;
        other.c = c;
        other.peer = peer;
        return other;
    }
}
