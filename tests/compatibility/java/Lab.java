import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What one feature works with: its topic and group, the clients that it has started, and waits with a limit. */
final class Lab {
    static final int WAIT_S_MAX = 25;
    static final int SEND_MS_MAX = 10_000;
    private static final int NOTHING_MS = 1_500;

    /** A condition that must hold. */
    static final class Broken extends Exception {
        Broken(String text) {
            super(text);
        }
    }

    interface Setup<T> {
        void on(T client) throws Exception;
    }

    private interface Closing {
        void close() throws Exception;
    }

    final String namesrv;
    final String topic;
    final String group;
    private final ConcurrentLinkedDeque<Closing> started = new ConcurrentLinkedDeque<>();

    Lab(String namesrv, String name) {
        this.namesrv = namesrv;
        this.topic = name;
        this.group = name;
    }

    /** Settings of every client: short intervals, so that a feature takes seconds. */
    <T extends ClientConfig> T quick(T client) {
        client.setNamesrvAddr(namesrv);
        client.setHeartbeatBrokerInterval(1_000);
        client.setPollNameServerInterval(1_000);
        client.setPersistConsumerOffsetInterval(1_000);
        return client;
    }

    void closeAtEnd(AutoCloseable client) {
        started.push(client::close);
    }

    DefaultMQProducer producer() throws Exception {
        return started(new DefaultMQProducer(group + "-producer"));
    }

    <T extends DefaultMQProducer> T started(T producer) throws Exception {
        quick(producer).setSendMsgTimeout(SEND_MS_MAX);
        producer.start();
        closeAtEnd(producer::shutdown);
        return producer;
    }

    /** A consumer of the lab's topic that is not started; it begins with the oldest message. */
    DefaultMQPushConsumer consumer() throws Exception {
        return ready(new DefaultMQPushConsumer(group));
    }

    DefaultMQPushConsumer ready(DefaultMQPushConsumer consumer) {
        quick(consumer).setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    void start(DefaultMQPushConsumer consumer) throws Exception {
        consumer.start();
        closeAtEnd(consumer::shutdown);
    }

    /** Messages that a consumer got. */
    static final class Inbox {
        private final BlockingQueue<MessageExt> messages = new LinkedBlockingQueue<>();

        void put(MessageExt message) {
            messages.add(message);
        }

        MessageListenerConcurrently listener() {
            return (found, context) -> {
                messages.addAll(found);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            };
        }

        /** Takes the next {@code count} messages. */
        List<MessageExt> take(int count) throws Exception {
            List<MessageExt> found = new ArrayList<>();
            long end = System.currentTimeMillis() + WAIT_S_MAX * 1_000L;
            while (found.size() < count) {
                MessageExt next = messages.poll(Math.max(0, end - System.currentTimeMillis()), TimeUnit.MILLISECONDS);
                if (next == null) {
                    throw new Broken(found.size() + " of " + count + " messages came in " + WAIT_S_MAX + " s");
                }
                found.add(next);
            }
            return found;
        }

        /** Waits a little; no message may come. */
        void holdsNothing() throws Exception {
            MessageExt next = messages.poll(NOTHING_MS, TimeUnit.MILLISECONDS);
            if (next != null) {
                throw new Broken("a message too many: " + text(next));
            }
        }

        /** Takes one message, which must have this body. */
        MessageExt takeOnly(String body) throws Exception {
            MessageExt found = take(1).get(0);
            equal(body, text(found), "the next message");
            return found;
        }
    }

    Inbox inbox() throws Exception {
        return inbox(consumer -> consumer.subscribe(topic, "*"));
    }

    Inbox inbox(Setup<DefaultMQPushConsumer> setup) throws Exception {
        Inbox inbox = new Inbox();
        DefaultMQPushConsumer consumer = consumer();
        consumer.registerMessageListener(inbox.listener());
        setup.on(consumer);
        start(consumer);
        return inbox;
    }

    Message message(String body) {
        return new Message(topic, body.getBytes(StandardCharsets.UTF_8));
    }

    Message message(String tag, String body) {
        return new Message(topic, tag, body.getBytes(StandardCharsets.UTF_8));
    }

    static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static SendResult stored(SendResult result) throws Broken {
        equal(SendStatus.SEND_OK, result.getSendStatus(), "the status of the send");
        return result;
    }

    static void equal(Object expected, Object found, String what) throws Broken {
        if (!expected.equals(found)) {
            throw new Broken(what + " was " + found + ", expected " + expected);
        }
    }

    static void holds(boolean condition, String text) throws Broken {
        if (!condition) {
            throw new Broken(text);
        }
    }

    /** Asks until {@code question} returns a value; an exception counts as none, and the last one is thrown at the end. */
    static <T> T until(Callable<T> question, String text) throws Exception {
        long end = System.currentTimeMillis() + WAIT_S_MAX * 1_000L;
        while (true) {
            Exception problem = new Broken(text + ": not within " + WAIT_S_MAX + " s");
            try {
                T found = question.call();
                if (found != null) {
                    return found;
                }
            } catch (Exception failed) {
                problem = failed;
            }
            if (System.currentTimeMillis() > end) {
                throw problem;
            }
            Thread.sleep(100);
        }
    }

    /** Calls a method that not every version of the client has. Throws NoSuchMethodException if this one has not. */
    static Object call(Object target, String name, Object... arguments) throws Exception {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && accepts(method.getParameterTypes(), arguments)) {
                return method.invoke(target, arguments);
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static boolean accepts(Class<?>[] types, Object[] arguments) {
        if (types.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            boolean number = types[i] == long.class && arguments[i] instanceof Long
                    || types[i] == int.class && arguments[i] instanceof Integer
                    || types[i] == boolean.class && arguments[i] instanceof Boolean;
            if (!number && arguments[i] != null && !types[i].isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }

    /** Sets an enum whose class is in different packages in 4.9 and 5.x. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static void choose(Object target, String setter, String constant) throws Exception {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(setter)) {
                method.invoke(target, Enum.valueOf((Class) method.getParameterTypes()[0], constant));
                return;
            }
        }
        throw new NoSuchMethodException(setter);
    }

    static Throwable rootOf(Throwable failed) {
        Throwable cause = failed;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause;
    }

    void close() {
        for (Closing client : started) {
            try {
                client.close();
            } catch (Exception ignored) {
                // the outcome is known; the process ends soon
            }
        }
    }
}
