import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The official Java client as a load, the same for every cluster. It prints the figures as one line of JSON.
 *
 * <pre>
 *   Bench NAMESRV send    THREADS SECONDS BYTES [TOPIC]    synchronous sends per second, and the time of one
 *   Bench NAMESRV commit  THREADS SECONDS BYTES [TOPIC]    the same of transactions: half message, local transaction, commit
 *   Bench NAMESRV async   IN_FLIGHT SECONDS BYTES [TOPIC]  asynchronous sends per second
 *   Bench NAMESRV fill    COUNT BYTES [TOPIC [PRICES]]     exactly COUNT messages, as fast as possible; their prices are 0 to PRICES - 1 in turns
 *   Bench NAMESRV consume COUNT SECONDS [TOPIC [SQL]]      messages per second, from the first to the last of COUNT
 *   Bench NAMESRV first   [TOPIC]                          milliseconds from its start to the first message consumed
 * </pre>
 */
public final class Bench {
    private static final int WARM_UP_SENDS = 2_000;
    private static final int LATENCIES_MAX = 500_000; // per thread
    private static final int FILL_IN_FLIGHT = 1_000;

    private interface Mode {
        String run(String namesrv, Arguments given) throws Exception;
    }

    private static final Map<String, Mode> MODES =
            Map.of("send", Bench::send, "commit", Bench::commit, "async", Bench::async, "fill", Bench::fill, "consume", Bench::consume, "first", Bench::first);

    private Bench() {}

    public static void main(String[] given) throws Exception {
        System.out.println(MODES.get(given[1]).run(given[0], new Arguments(given)));
        System.exit(0);
    }

    /** Sends one message and waits for the answer. */
    private interface Sender {
        void send(Message message) throws Exception;
    }

    private static String send(String namesrv, Arguments given) throws Exception {
        DefaultMQProducer producer = producer(namesrv);
        return timed("send", producer, producer::send, given);
    }

    private static String commit(String namesrv, Arguments given) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("bench_transactions_" + System.nanoTime());
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return timed("commit", started(namesrv, producer), message -> producer.sendMessageInTransaction(message, null), given);
    }

    private static String timed(String mode, DefaultMQProducer producer, Sender sender, Arguments given) throws Exception {
        int threads = given.number(2);
        int seconds = given.number(3);
        byte[] body = body(given.number(4));
        String topic = given.text(5, "BenchTopic");
        for (int i = 0; i < WARM_UP_SENDS; i++) {
            sender.send(new Message(topic, body));
        }
        AtomicLong errors = new AtomicLong();
        ExecutorService senders = Executors.newFixedThreadPool(threads);
        long began = System.nanoTime();
        long end = began + TimeUnit.SECONDS.toNanos(seconds);
        var promised = IntStream.range(0, threads).mapToObj(i -> senders.submit(() -> sendUntil(end, sender, topic, body, errors))).toList();
        LongStream.Builder all = LongStream.builder();
        for (Future<long[]> latencies : promised) {
            Arrays.stream(latencies.get()).forEach(all);
        }
        double took = (System.nanoTime() - began) / 1e9;
        long[] sorted = all.build().sorted().toArray();
        producer.shutdown();
        return json("{\"mode\":\"%s\",\"threads\":%d,\"sends_per_s\":%.0f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"errors\":%d}",
                mode, threads, sorted.length / took, sorted[sorted.length / 2] / 1e3, sorted[(int) (sorted.length * 0.99)] / 1e3, errors.get());
    }

    private static long[] sendUntil(long end, Sender sender, String topic, byte[] body, AtomicLong errors) {
        long[] latencies = new long[LATENCIES_MAX];
        int count = 0;
        while (count < latencies.length && System.nanoTime() < end) {
            long began = System.nanoTime();
            try {
                sender.send(new Message(topic, body));
                latencies[count++] = System.nanoTime() - began;
            } catch (Exception problem) {
                errors.incrementAndGet();
            }
        }
        return Arrays.copyOf(latencies, count);
    }

    private static String async(String namesrv, Arguments given) throws Exception {
        int inFlight = given.number(2);
        int seconds = given.number(3);
        byte[] body = body(given.number(4));
        String topic = given.text(5, "BenchTopic");
        DefaultMQProducer producer = warmProducer(namesrv, topic, body);
        Window window = new Window(inFlight);
        long began = System.nanoTime();
        long end = began + TimeUnit.SECONDS.toNanos(seconds);
        while (System.nanoTime() < end) {
            window.send(producer, new Message(topic, body));
        }
        window.waitEmpty();
        double took = (System.nanoTime() - began) / 1e9;
        producer.shutdown();
        return json("{\"mode\":\"async\",\"inflight\":%d,\"sends_per_s\":%.0f,\"errors\":%d}", inFlight, window.done.get() / took, window.errors.get());
    }

    private static String fill(String namesrv, Arguments given) throws Exception {
        int count = given.number(2);
        byte[] body = body(given.number(3));
        String topic = given.text(4, "BenchTopic");
        int prices = Integer.parseInt(given.text(5, "0"));
        DefaultMQProducer producer = producer(namesrv);
        Window window = new Window(FILL_IN_FLIGHT);
        while (window.done.get() < count) { // failed sends are repeated
            for (long left = count - window.done.get(); left > 0; left--) {
                Message message = new Message(topic, body);
                if (prices > 0) {
                    message.putUserProperty("price", Long.toString(left % prices));
                    message.putUserProperty("region", "eu");
                }
                window.send(producer, message);
            }
            window.waitEmpty();
        }
        producer.shutdown();
        return json("{\"mode\":\"fill\",\"messages\":%d,\"errors\":%d}", window.done.get(), window.errors.get());
    }

    private static String consume(String namesrv, Arguments given) throws Exception {
        long wanted = given.number(2);
        int seconds = given.number(3);
        AtomicLong count = new AtomicLong();
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        CountDownLatch enough = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = consumer(namesrv, given.text(4, "BenchTopic"), "bench_consumer_" + System.nanoTime());
        if (!given.text(5, "").isEmpty()) {
            consumer.subscribe(given.text(4, "BenchTopic"), MessageSelector.bySql(given.text(5, "")));
        }
        consumer.setConsumeMessageBatchMaxSize(32);
        consumer.setPullBatchSize(32);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.nanoTime();
            first.compareAndSet(0, now);
            last.accumulateAndGet(now, Math::max);
            if (count.addAndGet(messages.size()) >= wanted) {
                enough.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        enough.await(seconds, TimeUnit.SECONDS);
        double took = (last.get() - first.get()) / 1e9;
        String line = json("{\"mode\":\"consume\",\"messages\":%d,\"msgs_per_s\":%.0f}", count.get(), count.get() / took);
        consumer.shutdown();
        return line;
    }

    /** A new producer and a new consumer: the route, the topic and the group are all new. */
    private static String first(String namesrv, Arguments given) throws Exception {
        String topic = given.text(2, "TopicFirst");
        long began = System.nanoTime();
        CountDownLatch got = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = consumer(namesrv, topic, "first_consumer");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = producer(namesrv);
        sendStubbornly(producer, new Message(topic, "hello".getBytes()));
        consumer.start();
        boolean came = got.await(60, TimeUnit.SECONDS);
        double took = (System.nanoTime() - began) / 1e6;
        consumer.shutdown();
        producer.shutdown();
        return json("{\"mode\":\"first\",\"got\":%b,\"ms\":%.0f}", came, took);
    }

    private static void sendStubbornly(DefaultMQProducer producer, Message message) throws InterruptedException {
        while (true) {
            try {
                producer.send(message);
                return;
            } catch (Exception notYet) {
                Thread.sleep(10);
            }
        }
    }

    private static DefaultMQProducer producer(String namesrv) throws Exception {
        return started(namesrv, new DefaultMQProducer("bench_producer_" + System.nanoTime()));
    }

    private static DefaultMQProducer started(String namesrv, DefaultMQProducer producer) throws Exception {
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(10_000);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();
        return producer;
    }

    private static DefaultMQProducer warmProducer(String namesrv, String topic, byte[] body) throws Exception {
        DefaultMQProducer producer = producer(namesrv);
        for (int i = 0; i < WARM_UP_SENDS; i++) {
            producer.send(new Message(topic, body));
        }
        return producer;
    }

    private static DefaultMQPushConsumer consumer(String namesrv, String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    private static byte[] body(int bytes) {
        byte[] body = new byte[bytes];
        Arrays.fill(body, (byte) 'x');
        return body;
    }

    private static String json(String format, Object... values) {
        return String.format(Locale.ROOT, format, values);
    }

    /** The command-line arguments, by position. */
    private record Arguments(String[] given) {
        int number(int place) {
            return Integer.parseInt(given[place]);
        }

        String text(int place, String otherwise) {
            return given.length > place ? given[place] : otherwise;
        }
    }

    /** Limits the number of unanswered sends. */
    private static final class Window implements SendCallback {
        final AtomicLong done = new AtomicLong();
        final AtomicLong errors = new AtomicLong();
        private final int size;
        private final Semaphore room;

        Window(int size) {
            this.size = size;
            this.room = new Semaphore(size);
        }

        void send(DefaultMQProducer producer, Message message) throws Exception {
            room.acquire();
            producer.send(message, this);
        }

        void waitEmpty() throws InterruptedException {
            room.acquire(size);
            room.release(size);
        }

        @Override
        public void onSuccess(SendResult result) {
            done.incrementAndGet();
            room.release();
        }

        @Override
        public void onException(Throwable problem) {
            errors.incrementAndGet();
            room.release();
        }
    }
}
