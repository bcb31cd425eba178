import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.spring.autoconfigure.RocketMQAutoConfiguration;
import org.apache.rocketmq.spring.core.RocketMQLocalRequestCallback;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.apache.rocketmq.spring.support.RocketMQHeaders;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/**
 * Runs features of the Spring starter, and prints one line of JSON for each.
 *
 * <p>One application context has a listener for each feature that receives; the listeners are in {@link Listeners}.
 *
 * <pre>java -cp … Main NAMESRV PREFIX [FEATURE…]</pre>
 */
public final class Main {
    private static final int AT_A_TIME = 4;
    private static final int FEATURE_S_MAX = 60;
    static final int WAIT_S_MAX = 30;
    private static final int SEND_MS_MAX = 10_000;

    interface Check {
        void run(Lab lab) throws Exception;
    }

    /** What one feature works with. */
    record Lab(RocketMQTemplate template, String prefix, String feature) {
        String topic() {
            return prefix + "-" + feature;
        }

        Received received() {
            return Listeners.of(feature);
        }
    }

    private static final Map<String, Check> FEATURES = new LinkedHashMap<>();

    static {
        FEATURES.put("send-sync", lab -> {
            stored(lab.template().syncSend(lab.topic(), "sync"));
            lab.received().takeOnly("sync");
        });
        FEATURES.put("send-async", lab -> {
            CompletableFuture<SendResult> result = new CompletableFuture<>();
            lab.template().asyncSend(lab.topic(), "async", completing(result));
            stored(result.get(WAIT_S_MAX, TimeUnit.SECONDS));
            lab.received().takeOnly("async");
        });
        FEATURES.put("send-oneway", lab -> {
            lab.template().sendOneWay(lab.topic(), "one way");
            lab.received().takeOnly("one way");
        });
        FEATURES.put("send-batch", lab -> {
            stored(lab.template().syncSend(lab.topic(), List.of(message("one"), message("two"), message("three"))));
            lab.received().take(3);
        });
        FEATURES.put("send-by-selector", lab -> {
            for (int i = 0; i < 3; i++) {
                stored(lab.template().syncSendOrderly(lab.topic(), "order " + i, "order-7"));
            }
            lab.received().take(3);
        });
        FEATURES.put("send-properties", Main::properties);
        FEATURES.put("send-delay-level", lab -> {
            stored(lab.template().syncSend(lab.topic(), message("later"), SEND_MS_MAX, 1));
            lab.received().takeOnly("later");
        });
        FEATURES.put("send-delay-ms", lab -> {
            stored(lab.template().syncSendDelayTimeMills(lab.topic(), "later", 3_000));
            lab.received().takeOnly("later");
        });
        FEATURES.put("send-deliver-at", lab -> {
            stored(lab.template().syncSendDeliverTimeMills(lab.topic(), "later", System.currentTimeMillis() + 3_000));
            lab.received().takeOnly("later");
        });
        FEATURES.put("transaction-commit", lab -> {
            transaction(lab, "commit");
            lab.received().takeOnly("commit");
        });
        FEATURES.put("transaction-rollback", lab -> {
            transaction(lab, "rollback");
            alone(lab);
        });
        FEATURES.put("transaction-check-commit", lab -> {
            transaction(lab, "unknown, then commit");
            Listeners.CHECKED.takeOnly("unknown, then commit");
            lab.received().takeOnly("unknown, then commit");
        });
        FEATURES.put("request-sync", lab -> {
            registered(lab);
            String reply = lab.template().sendAndReceive(lab.topic(), "question", String.class, SEND_MS_MAX);
            holds("answer to question".equals(reply), "the reply was " + reply);
        });
        FEATURES.put("request-async", lab -> {
            registered(lab);
            CompletableFuture<String> reply = new CompletableFuture<>();
            lab.template().sendAndReceive(lab.topic(), "question", new Reply(reply), SEND_MS_MAX);
            String found = reply.get(WAIT_S_MAX, TimeUnit.SECONDS);
            holds("answer to question".equals(found), "the reply was " + found);
        });
        FEATURES.put("consume-concurrently", lab -> {
            for (int i = 0; i < 40; i++) {
                stored(lab.template().syncSend(lab.topic(), "" + i));
            }
            lab.received().take(40);
        });
        FEATURES.put("consume-orderly", lab -> {
            for (int i = 0; i < 8; i++) {
                stored(lab.template().syncSendOrderly(lab.topic(), "" + i, "order-7"));
            }
            for (int i = 0; i < 8; i++) {
                lab.received().takeOnly("" + i);
            }
        });
        FEATURES.put("consume-broadcasting", lab -> {
            stored(lab.template().syncSend(lab.topic(), "for all"));
            lab.received().takeOnly("for all");
            Listeners.of(lab.feature() + "-2").takeOnly("for all");
        });
        FEATURES.put("consume-tags", lab -> {
            for (String tag : List.of("open", "paid", "lost", "paid")) {
                stored(lab.template().syncSend(lab.topic() + ":" + tag, tag));
            }
            lab.received().takeOnly("paid");
            lab.received().takeOnly("paid");
        });
        FEATURES.put("consume-sql", lab -> {
            for (String price : List.of("5", "50", "7", "50")) {
                stored(lab.template().syncSend(lab.topic(), MessageBuilder.withPayload(price).setHeader("price", price).build()));
            }
            lab.received().takeOnly("50");
            lab.received().takeOnly("50");
        });
        FEATURES.put("consume-retry", lab -> {
            stored(lab.template().syncSend(lab.topic(), "refused at first"));
            lab.received().takeOnly("refused at first");
            lab.received().takeOnly("refused at first");
        });
        FEATURES.put("lite-subscribe", lab -> {
            stored(lab.template().syncSend(lab.topic(), "polled"));
            for (long end = System.currentTimeMillis() + WAIT_S_MAX * 1_000L; System.currentTimeMillis() < end; ) {
                if (lab.template().receive(String.class, 1_000).contains("polled")) {
                    return;
                }
            }
            throw new IllegalStateException("the message was not polled");
        });
        FEATURES.put("trace-consume", lab -> {
            SendResult result = lab.template().syncSend(lab.topic(), "traced");
            lab.received().takeOnly("traced");
            Listeners.of("trace").waitForOneWith("SubAfter", result.getMsgId());
        });
        FEATURES.put("trace-send", lab -> {
            SendResult result = lab.template().syncSend(lab.topic(), "traced");
            Listeners.of("trace").waitForOneWith("Pub", result.getMsgId());
        });
    }

    public static void main(String[] arguments) throws Exception {
        String prefix = arguments[1];
        SpringApplication application = new SpringApplication(RocketMQAutoConfiguration.class, Listeners.class);
        application.setWebApplicationType(WebApplicationType.NONE);
        application.setBannerMode(org.springframework.boot.Banner.Mode.OFF);
        application.setLogStartupInfo(false);
        application.setDefaultProperties(Map.of(
                "topics", prefix,
                "logging.level.root", "OFF",
                "rocketmq.name-server", arguments[0],
                "rocketmq.producer.group", prefix + "-producer",
                "rocketmq.producer.send-message-timeout", SEND_MS_MAX,
                "rocketmq.producer.enable-msg-trace", true,
                "rocketmq.pull-consumer.group", prefix + "-lite-subscribe",
                "rocketmq.pull-consumer.topic", prefix + "-lite-subscribe"));
        ConfigurableApplicationContext context = application.run();
        RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
        List<String> wanted = List.of(arguments).subList(2, arguments.length);
        ExecutorService workers = Executors.newFixedThreadPool(AT_A_TIME);
        CountDownLatch open = new CountDownLatch(FEATURES.size());
        FEATURES.forEach((name, check) -> workers.execute(() -> {
            try {
                if (wanted.isEmpty() || wanted.contains(name)) {
                    report(name, check, new Lab(template, prefix, name));
                }
            } finally {
                open.countDown();
            }
        }));
        open.await();
        System.exit(0);
    }

    private static void report(String name, Check check, Lab lab) {
        ExecutorService alone = Executors.newSingleThreadExecutor();
        Future<?> running = alone.submit(() -> {
            check.run(lab);
            return null;
        });
        String why = "";
        try {
            running.get(FEATURE_S_MAX, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            why = "not finished in " + FEATURE_S_MAX + " s";
        } catch (Exception failed) {
            Throwable cause = failed;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            why = cause.getClass().getSimpleName() + ": " + cause.getMessage();
        }
        alone.shutdownNow();
        String outcome = why.isEmpty() ? "works" : "fails";
        System.out.println("{\"feature\":\"" + name + "\",\"outcome\":\"" + outcome + "\",\"why\":\""
                + why.replaceAll("[\\\\\"\\p{Cntrl}]", " ") + "\"}");
    }

    private static void properties(Lab lab) throws Exception {
        Message<String> message = MessageBuilder.withPayload("with properties")
                .setHeader(RocketMQHeaders.KEYS, "key-1").setHeader("colour", "blau grün").build();
        stored(lab.template().syncSend(lab.topic() + ":paid", message));
        lab.received().takeOnly("paid key-1 blau grün");
    }

    private static void transaction(Lab lab, String outcome) throws Exception {
        stored(lab.template().sendMessageInTransaction(lab.topic(), message(outcome), outcome));
    }

    /** A message that is sent later arrives alone. */
    private static void alone(Lab lab) throws Exception {
        stored(lab.template().syncSend(lab.topic(), "plain"));
        lab.received().takeOnly("plain");
        lab.received().holdsNothing();
    }

    /** Replies to a producer that is not registered at the broker are lost; the listener replies to null with null. */
    private static void registered(Lab lab) {
        lab.template().getProducer().getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
    }

    private static Message<String> message(String body) {
        return MessageBuilder.withPayload(body).build();
    }

    private static void stored(SendResult result) {
        holds(result.getSendStatus() == SendStatus.SEND_OK, "the status of the send was " + result.getSendStatus());
    }

    static void holds(boolean condition, String text) {
        if (!condition) {
            throw new IllegalStateException(text);
        }
    }

    private static SendCallback completing(CompletableFuture<SendResult> result) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult sent) {
                result.complete(sent);
            }

            @Override
            public void onException(Throwable problem) {
                result.completeExceptionally(problem);
            }
        };
    }

    /** A class, because the starter finds the type of the reply in its declaration. */
    static final class Reply implements RocketMQLocalRequestCallback<String> {
        private final CompletableFuture<String> result;

        Reply(CompletableFuture<String> result) {
            this.result = result;
        }

        @Override
        public void onSuccess(String message) {
            result.complete(message);
        }

        @Override
        public void onException(Throwable problem) {
            result.completeExceptionally(problem);
        }
    }
}
