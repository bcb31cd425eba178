import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import rocketmq.emulator.junit.RocketMqCluster;
import rocketmq.emulator.junit.RocketMqExtension;

/** What the library prints to standard error: brokers without a topic, and likely mistakes in a test that has failed. */
@ExtendWith({RocketMqExtension.class, FailedTestTest.Context.class})
class FailedTestTest {
    private static final int MS_MAX = 30_000; // a machine on which other suites run may be slow

    @Test
    void brokersWithoutATopicAndLikelyMistakesArePrinted(RocketMqCluster cluster, ExtensionContext context) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream errors = System.err;
        System.setErr(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            cluster.kill("broker-b");
            assertEquals(List.of("broker-a"), cluster.createTopic("tea", 1));
            sendAtALevelThatDoesNotExist(cluster);
            new RocketMqExtension().afterTestExecution(failed(context));
        } finally {
            System.setErr(errors);
        }
        String text = printed.toString(StandardCharsets.UTF_8);
        assertTrue(text.contains("createTopic: tea was not made on broker-b, which is dead: make it again when it runs"), text);
        List<String> misuses = cluster.misuses();
        assertEquals(1, misuses.size(), misuses.toString());
        assertTrue(misuses.get(0).contains("delay level 19, of 18"), misuses.get(0));
        assertTrue(text.contains(context.getDisplayName() + ": a likely mistake: " + misuses.get(0)), text);
    }

    private static void sendAtALevelThatDoesNotExist(RocketMqCluster cluster) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(cluster.namesrv());
        producer.setInstanceName("failed");
        producer.setMqClientApiTimeout(MS_MAX);
        producer.setSendMsgTimeout(MS_MAX);
        producer.start();
        try {
            Message message = new Message("tea", "one cup".getBytes(StandardCharsets.UTF_8));
            message.setDelayTimeLevel(19);
            producer.send(message);
        } finally {
            producer.shutdown();
        }
    }

    /** The context of a test, as if the test had failed. */
    private static ExtensionContext failed(ExtensionContext context) {
        return (ExtensionContext) Proxy.newProxyInstance(
            ExtensionContext.class.getClassLoader(), new Class<?>[] {ExtensionContext.class},
            (proxy, method, arguments) -> method.getName().equals("getExecutionException")
                ? Optional.of(new AssertionError("on purpose")) : method.invoke(context, arguments));
    }

    /** Passes its context to a test. */
    static final class Context implements ParameterResolver {
        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
            return parameter.getParameter().getType() == ExtensionContext.class;
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
            return context;
        }
    }
}
