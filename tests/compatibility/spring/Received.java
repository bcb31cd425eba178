import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What a listener got, as text. */
final class Received {
    private static final int NOTHING_MS = 1_500;
    private final BlockingQueue<String> texts = new LinkedBlockingQueue<>();

    void put(String text) {
        texts.add(text);
    }

    void take(int count) throws InterruptedException {
        for (int i = 0; i < count; i++) {
            next(i + " of " + count + " messages came");
        }
    }

    void takeOnly(String text) throws InterruptedException {
        String found = next("no message came");
        Main.holds(found.equals(text), "the next message was " + found + ", expected " + text);
    }

    /** Waits for a text with both parts, and leaves all texts to the other features. */
    void waitForOneWith(String kind, String part) throws InterruptedException {
        long end = System.currentTimeMillis() + Main.WAIT_S_MAX * 1_000L;
        while (texts.stream().noneMatch(text -> text.contains(kind) && text.contains(part))) {
            Main.holds(System.currentTimeMillis() < end, "no text with " + kind + " and the id in " + Main.WAIT_S_MAX + " s");
            Thread.sleep(100);
        }
    }

    void holdsNothing() throws InterruptedException {
        String found = texts.poll(NOTHING_MS, TimeUnit.MILLISECONDS);
        Main.holds(found == null, "a message too many: " + found);
    }

    private String next(String otherwise) throws InterruptedException {
        String found = texts.poll(Main.WAIT_S_MAX, TimeUnit.SECONDS);
        Main.holds(found != null, otherwise + " in " + Main.WAIT_S_MAX + " s");
        return found;
    }
}
