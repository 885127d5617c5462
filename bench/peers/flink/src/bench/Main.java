package bench;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** `java bench.Main PLAN OUT`: the drone program on Flink, in a cluster within this process. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        Plan plan = new Plan(Path.of(arguments[0]));
        Clock.warmup = plan.warmup;
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(plan.parallelism, settings(plan));
        env.getConfig().enableObjectReuse();
        SingleOutputStreamOperator<Output> actions = env.fromSource(
                        new Generator(plan), WatermarkStrategy.noWatermarks(), "events", Serializers.Info.EVENT)
                .keyBy(event -> event.key, Types.STRING)
                .process(new Logic(plan.watchdogMillis, false))
                .returns(Serializers.Info.OUTPUT);
        actions.sinkTo(new CountingSink(plan.rate, plan.firstCounted()));
        if (plan.stream.mix.equals("messages")) {
            actions.getSideOutput(Logic.MESSAGES)
                    .keyBy(event -> event.key, Types.STRING)
                    .process(new Logic(0, true))
                    .returns(Serializers.Info.OUTPUT)
                    .sinkTo(new CountingSink(0, 0));
        }
        Path status = Path.of("/proc/self/status");
        env.execute("drones");
        Runtime runtime = Runtime.getRuntime();
        String resident = Files.readAllLines(status).stream()
                .filter(line -> line.startsWith("VmHWM")).findFirst().orElse("VmHWM: 0 kB");
        String text = Totals.json();
        text = text.substring(0, text.length() - 1)
                + ",\"resident_kb\":" + resident.replaceAll("[^0-9]", "")
                + ",\"heap_bytes\":" + (runtime.totalMemory() - runtime.freeMemory()) + "}";
        Files.writeString(Path.of(arguments[1]), text);
        System.exit(0); // threads of the cluster linger
    }

    private static Configuration settings(Plan plan) {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", plan.backend);
        settings.setString("execution.checkpointing.incremental", "true");
        settings.setString("execution.checkpointing.interval", "1s");
        settings.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
        settings.setString("execution.checkpointing.dir", Path.of(plan.folder, "checkpoints").toUri().toString());
        settings.setString("execution.buffer-timeout.interval", plan.rate > 0 ? "1 ms" : "100 ms");
        settings.setString("taskmanager.memory.managed.size", "1g");
        settings.setString("taskmanager.memory.network.min", "128m");
        settings.setString("taskmanager.memory.network.max", "128m");
        settings.setString("taskmanager.numberOfTaskSlots", Integer.toString(plan.parallelism));
        settings.setString("io.tmp.dirs", Path.of(plan.folder, "tmp").toString());
        settings.setString("state.backend.rocksdb.localdir", Path.of(plan.folder, "rocksdb").toString());
        settings.setString("restart-strategy.type", "none");
        return settings;
    }
}
