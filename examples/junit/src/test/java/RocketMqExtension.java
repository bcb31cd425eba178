import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * One cluster for all tests of a run, empty at the start of each: {@code @ExtendWith(RocketMqExtension.class)}
 * passes the {@link MiniCluster} to a test with such a parameter.
 *
 * <p>A reset takes some milliseconds, and clients stay connected.
 */
public final class RocketMqExtension implements BeforeEachCallback, ParameterResolver {
    private static final ExtensionContext.Namespace NAMESPACE =
        ExtensionContext.Namespace.create(RocketMqExtension.class);

    @Override
    public void beforeEach(ExtensionContext context) throws Exception {
        cluster(context).reset();
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == MiniCluster.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return cluster(context);
    }

    private static MiniCluster cluster(ExtensionContext context) {
        return context.getRoot().getStore(NAMESPACE)
            .getOrComputeIfAbsent(Running.class, key -> new Running(), Running.class).cluster;
    }

    /** JUnit closes this when all tests have run. */
    private static final class Running implements ExtensionContext.Store.CloseableResource {
        final MiniCluster cluster;

        Running() {
            try {
                Path store = Files.createTempDirectory("rocketmq");
                cluster = new MiniCluster(store);
            } catch (java.io.IOException cannotStart) {
                throw new IllegalStateException(cannotStart);
            }
        }

        @Override
        public void close() throws InterruptedException {
            cluster.close();
        }
    }
}
