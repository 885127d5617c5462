package bench;

import java.io.Serializable;

/** The numbers of bench/events.py, event by event. */
final class Stream implements Serializable {
    static final long GOLDEN = 0x9E3779B97F4A7C15L;
    static final int RESTS = 8;
    static final byte POSITION = 0, BATTERY = 1, HEARTBEAT = 2, NEAR = 3, WARNED = 4;

    final long seed;
    final int agents;
    final String mix;
    final long every;
    private transient String[] keys;

    Stream(long seed, int agents, String mix, long every) {
        this.seed = seed;
        this.agents = agents;
        this.mix = mix;
        this.every = every;
    }

    static long mix(long x) {
        x = (x ^ (x >>> 30)) * 0xBF58476D1CE4E5B9L;
        x = (x ^ (x >>> 27)) * 0x94D049BB133111EBL;
        return x ^ (x >>> 31);
    }

    /** As `hashes` of bench/oracle.py: one value of one agent. */
    static long hash(long agent, long bits) {
        return mix(mix(agent) ^ bits);
    }

    static long hash(long agent, double value) {
        return hash(agent, Double.doubleToRawLongBits(value));
    }

    /** Key texts are made once, as a device has its name once. */
    String key(int agent) {
        if (keys == null) {
            keys = new String[agents];
            for (int n = 0; n < agents; n++) keys[n] = "d-" + n;
        }
        return keys[agent];
    }

    static int agentOf(String key) {
        return Integer.parseInt(key, 2, key.length(), 10);
    }

    void fill(Event event, long n) {
        long one = mix(n * GOLDEN + seed);
        long two = mix(one);
        long low = one & 0xFFFFFFFFL;
        long high = two >>> 40;
        event.key = key(n < agents ? (int) n : below(agents / RESTS, one >>> 32) * RESTS + (int) (n % RESTS));
        event.kind = kind((int) (two & 0xFF));
        event.peer = "";
        switch (event.kind) {
            case POSITION:
                event.a = low * 0x1p-32;
                event.b = ((two >>> 8) & 0xFFFFFFFL) * 0x1p-28;
                event.c = altitude(n, high);
                break;
            case BATTERY:
                event.a = high * (100 * 0x1p-24);
                break;
            case NEAR:
                event.a = high * 0x1p-24;
                event.peer = key(below(agents, low));
                break;
            default:
                event.a = high;
        }
    }

    private byte kind(int draw) {
        if (mix.equals("messages")) return draw < 51 ? NEAR : POSITION;
        if (mix.equals("mixed")) return draw < 64 ? BATTERY : draw < 102 ? HEARTBEAT : POSITION;
        return POSITION;
    }

    private double altitude(long n, long high) {
        if (every == 0) return high * (101 * 0x1p-24);
        return n % every == 0 ? 101.0 + n * 0x1p-20 : high * 0x1p-24;
    }

    /** Which event of a latency stream led to a descent. */
    static long numberOf(double to) {
        return (long) ((to - 81.0) * 0x1p20);
    }

    private static int below(long bound, long word) {
        return (int) ((word * bound) >>> 32);
    }
}
