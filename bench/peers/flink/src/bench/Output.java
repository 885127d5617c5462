package bench;

import java.io.Serializable;

/** What leaves a drone: an action, or at the end of the stream one hash of its state per field. */
public final class Output implements Serializable {
    static final byte DESCEND = 0, LAND = 1, AVOID = 2, LOST = 3, STATE = 4, LATE_STATE = 5;
    static final String[] ACTIONS = {"Descend", "Land", "Avoid", "Lost"};
    static final String[] FIELDS = {
        "lat", "lon", "alt", "battery", "closest", "mode", "moves", "beats", "warnings"
    };

    public byte kind;
    public int agent;
    public double value;
    public long[] hashes = {};

    static Output action(byte kind, String key, double value) {
        Output output = new Output();
        output.kind = kind;
        output.agent = Stream.agentOf(key);
        output.value = value;
        return output;
    }

    static Output state(String key, Drone drone) {
        int agent = Stream.agentOf(key);
        Output output = new Output();
        output.kind = STATE;
        output.agent = agent;
        output.hashes = new long[] {
            Stream.hash(agent, drone.lat),
            Stream.hash(agent, drone.lon),
            Stream.hash(agent, drone.alt),
            Stream.hash(agent, drone.battery),
            Stream.hash(agent, drone.closest),
            Stream.hash(agent, drone.landing ? 1L : 0L),
            Stream.hash(agent, drone.moves),
            Stream.hash(agent, drone.beats),
            Stream.hash(agent, drone.warnings)
        };
        return output;
    }

    /** The part of a state that a second operator holds, as the difference to a new drone's. */
    static Output lateState(String key, Drone drone) {
        Output output = state(key, drone);
        Output fresh = state(key, new Drone());
        output.kind = LATE_STATE;
        for (int n = 0; n < FIELDS.length; n++) output.hashes[n] -= fresh.hashes[n];
        return output;
    }
}
