package bench;

import java.io.IOException;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.SimpleTypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Written by hand, as a job that has to be fast would: reflection of POJOs costs Flink a lot. */
final class Serializers {
    private Serializers() {}

    abstract static class Plain<T> extends TypeSerializerSingleton<T> {
        @Override
        public boolean isImmutableType() {
            return false;
        }

        @Override
        public int getLength() {
            return -1;
        }

        @Override
        public T copy(T from, T reuse) {
            return copy(from);
        }

        @Override
        public T deserialize(T reuse, DataInputView in) throws IOException {
            return deserialize(in);
        }

        @Override
        public void copy(DataInputView in, DataOutputView out) throws IOException {
            serialize(deserialize(in), out);
        }
    }

    static final class OfEvent extends Plain<Event> {
        @Override
        public Event createInstance() {
            return new Event();
        }

        @Override
        public Event copy(Event from) {
            return from.copy();
        }

        @Override
        public void serialize(Event event, DataOutputView out) throws IOException {
            out.writeUTF(event.key);
            out.writeByte(event.kind);
            out.writeDouble(event.a);
            if (event.kind == Stream.POSITION) {
                out.writeDouble(event.b);
                out.writeDouble(event.c);
            } else if (event.kind == Stream.NEAR) {
                out.writeUTF(event.peer);
            }
        }

        @Override
        public Event deserialize(DataInputView in) throws IOException {
            return deserialize(new Event(), in);
        }

        @Override
        public Event deserialize(Event event, DataInputView in) throws IOException {
            event.key = in.readUTF();
            event.kind = in.readByte();
            event.a = in.readDouble();
            if (event.kind == Stream.POSITION) {
                event.b = in.readDouble();
                event.c = in.readDouble();
            } else if (event.kind == Stream.NEAR) {
                event.peer = in.readUTF();
            }
            return event;
        }

        @Override
        public TypeSerializerSnapshot<Event> snapshotConfiguration() {
            return new Snapshot();
        }

        public static final class Snapshot extends SimpleTypeSerializerSnapshot<Event> {
            public Snapshot() {
                super(OfEvent::new);
            }
        }
    }

    static final class OfDrone extends Plain<Drone> {
        @Override
        public Drone createInstance() {
            return new Drone();
        }

        @Override
        public Drone copy(Drone from) {
            return from.copy();
        }

        @Override
        public void serialize(Drone drone, DataOutputView out) throws IOException {
            out.writeBoolean(drone.landing);
            out.writeDouble(drone.lat);
            out.writeDouble(drone.lon);
            out.writeDouble(drone.alt);
            out.writeLong(drone.moves);
            out.writeDouble(drone.battery);
            out.writeLong(drone.beats);
            out.writeLong(drone.warnings);
            out.writeDouble(drone.closest);
            out.writeLong(drone.deadline);
        }

        @Override
        public Drone deserialize(DataInputView in) throws IOException {
            Drone drone = new Drone();
            drone.landing = in.readBoolean();
            drone.lat = in.readDouble();
            drone.lon = in.readDouble();
            drone.alt = in.readDouble();
            drone.moves = in.readLong();
            drone.battery = in.readDouble();
            drone.beats = in.readLong();
            drone.warnings = in.readLong();
            drone.closest = in.readDouble();
            drone.deadline = in.readLong();
            return drone;
        }

        @Override
        public TypeSerializerSnapshot<Drone> snapshotConfiguration() {
            return new Snapshot();
        }

        public static final class Snapshot extends SimpleTypeSerializerSnapshot<Drone> {
            public Snapshot() {
                super(OfDrone::new);
            }
        }
    }

    static final class OfOutput extends Plain<Output> {
        @Override
        public Output createInstance() {
            return new Output();
        }

        @Override
        public Output copy(Output from) {
            return from; // nobody changes one
        }

        @Override
        public void serialize(Output output, DataOutputView out) throws IOException {
            out.writeByte(output.kind);
            out.writeInt(output.agent);
            out.writeDouble(output.value);
            out.writeInt(output.hashes.length);
            for (long hash : output.hashes) out.writeLong(hash);
        }

        @Override
        public Output deserialize(DataInputView in) throws IOException {
            Output output = new Output();
            output.kind = in.readByte();
            output.agent = in.readInt();
            output.value = in.readDouble();
            output.hashes = new long[in.readInt()];
            for (int n = 0; n < output.hashes.length; n++) output.hashes[n] = in.readLong();
            return output;
        }

        @Override
        public TypeSerializerSnapshot<Output> snapshotConfiguration() {
            return new Snapshot();
        }

        public static final class Snapshot extends SimpleTypeSerializerSnapshot<Output> {
            public Snapshot() {
                super(OfOutput::new);
            }
        }
    }

    /** What Flink asks of a type beside its serializer. */
    static final class Info<T> extends TypeInformation<T> {
        static final Info<Event> EVENT = new Info<>(Event.class, new OfEvent());
        static final Info<Drone> DRONE = new Info<>(Drone.class, new OfDrone());
        static final Info<Output> OUTPUT = new Info<>(Output.class, new OfOutput());

        private final Class<T> type;
        private final TypeSerializer<T> serializer;

        private Info(Class<T> type, TypeSerializer<T> serializer) {
            this.type = type;
            this.serializer = serializer;
        }

        @Override
        public boolean isBasicType() {
            return false;
        }

        @Override
        public boolean isTupleType() {
            return false;
        }

        @Override
        public int getArity() {
            return 1;
        }

        @Override
        public int getTotalFields() {
            return 1;
        }

        @Override
        public Class<T> getTypeClass() {
            return type;
        }

        @Override
        public boolean isKeyType() {
            return false;
        }

        @Override
        public TypeSerializer<T> createSerializer(SerializerConfig config) {
            return serializer;
        }

        @Override
        public String toString() {
            return type.getSimpleName();
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Info && ((Info<?>) other).type == type;
        }

        @Override
        public int hashCode() {
            return type.hashCode();
        }

        @Override
        public boolean canEqual(Object other) {
            return other instanceof Info;
        }
    }
}
