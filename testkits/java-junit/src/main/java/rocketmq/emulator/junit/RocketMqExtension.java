package rocketmq.emulator.junit;

import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Supplier;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * A cluster for each test, empty at its start: {@code @ExtendWith(RocketMqExtension.class)} passes
 * the {@link RocketMqCluster} to methods with such a parameter.
 *
 * <p>Tests that run one after the other use one cluster: a reset takes some milliseconds, a start
 * half a second. Tests and test classes that run at the same time use as many clusters. All end with
 * the suite. A class that asks for the cluster in {@code @BeforeAll} or in its constructor keeps one
 * for all its tests: these must not run at the same time.
 *
 * <p>When a test fails, the likely mistakes that the brokers have noticed in it are printed to
 * standard error: {@link RocketMqCluster#misuses}.
 *
 * <p>With options: {@code @RegisterExtension static RocketMqExtension rocketmq =
 * RocketMqExtension.with("--release", "5.3.3")}.
 */
public final class RocketMqExtension
    implements BeforeEachCallback, AfterTestExecutionCallback, ParameterResolver {
    private static final ExtensionContext.Namespace NAMESPACE =
        ExtensionContext.Namespace.create(RocketMqExtension.class);

    private final Object kind; // extensions of the same kind share clusters
    private final Supplier<RocketMqCluster> start;

    /** With the defaults of {@code rmqemu up}. */
    public RocketMqExtension() {
        this(List.of(), RocketMqCluster::start);
    }

    private RocketMqExtension(Object kind, Supplier<RocketMqCluster> start) {
        this.kind = kind;
        this.start = start;
    }

    /** With options of {@code rmqemu up}. */
    public static RocketMqExtension with(String... options) {
        return new RocketMqExtension(List.of(options), () -> RocketMqCluster.start(options));
    }

    /** With clusters that {@code start} starts, as {@link RocketMqCluster#mapped}. */
    public static RocketMqExtension with(Supplier<RocketMqCluster> start) {
        return new RocketMqExtension(start, start);
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        RocketMqCluster cluster = cluster(context);
        if (cluster.hasEnded()) { // of the class: its tests have its address
            throw new IllegalStateException("the cluster of this class is gone: " + cluster.ending());
        }
        cluster.reset();
    }

    @Override
    public void afterTestExecution(ExtensionContext context) {
        if (context.getExecutionException().isEmpty()) {
            return;
        }
        try {
            for (String text : cluster(context).misuses()) {
                System.err.println(context.getDisplayName() + ": a likely mistake: " + text);
            }
        } catch (RuntimeException noAnswer) {
            // a test can leave a broker, or the whole cluster, without answers: its own failure counts
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == RocketMqCluster.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return cluster(context);
    }

    /** That of the test, or of its class if the class has one; JUnit gives it back by closing its store. */
    private RocketMqCluster cluster(ExtensionContext context) {
        Pool pool = context.getRoot().getStore(NAMESPACE)
            .getOrComputeIfAbsent(kind, key -> new Pool(start), Pool.class);
        return context.getStore(NAMESPACE)
            .getOrComputeIfAbsent(pool, key -> new Use(pool), Use.class).cluster;
    }

    /** All clusters of a kind; JUnit closes it when all tests have run. */
    private static final class Pool implements ExtensionContext.Store.CloseableResource, AutoCloseable {
        private final Supplier<RocketMqCluster> start;
        private final Queue<RocketMqCluster> all = new ConcurrentLinkedQueue<>();
        private final Queue<RocketMqCluster> idle = new ConcurrentLinkedQueue<>();

        Pool(Supplier<RocketMqCluster> start) {
            this.start = start;
        }

        RocketMqCluster take() {
            RocketMqCluster found = idle.poll();
            while (found != null && found.hasEnded()) {
                System.err.println("a new cluster is started, because " + found.ending());
                found = idle.poll();
            }
            if (found == null) {
                found = start.get();
                all.add(found);
            }
            return found;
        }

        @Override
        public void close() throws Exception {
            for (RocketMqCluster cluster : all) {
                cluster.close();
            }
        }
    }

    /** A cluster while a test, or a class, uses it. */
    private static final class Use implements ExtensionContext.Store.CloseableResource, AutoCloseable {
        private final Pool pool;
        private final RocketMqCluster cluster;

        Use(Pool pool) {
            this.pool = pool;
            cluster = pool.take();
        }

        @Override
        public void close() {
            pool.idle.add(cluster);
        }
    }
}
