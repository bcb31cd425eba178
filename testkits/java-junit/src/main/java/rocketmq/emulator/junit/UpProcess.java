package rocketmq.emulator.junit;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/**
 * A process {@code rmqemu up}, which ends with this one. Its errors are passed on until it is closed;
 * the last of them are in the messages of exceptions.
 */
final class UpProcess implements AutoCloseable {
    private static final int READY_S_MAX = 60, STOP_S_MAX = 10, KEPT_LINES_MAX = 8;

    private final String command;
    private final Process process;
    private final Deque<String> errors = new ConcurrentLinkedDeque<>();
    private final Thread errorReader;
    private volatile boolean isClosed;

    UpProcess(List<String> options) throws IOException {
        List<String> words = new ArrayList<>(List.of("up", "--exit-with-parent", "--port", "0"));
        words.addAll(options);
        process = run(words);
        command = "rmqemu " + String.join(" ", words);
        errorReader = follow(process.getErrorStream(), this::passOn, () -> { });
    }

    private static Process run(List<String> words) throws IOException {
        List<String> command = new ArrayList<>(program());
        command.addAll(words);
        try {
            return new ProcessBuilder(command).start();
        } catch (IOException failed) {
            throw new IOException(
                "cannot run " + command.get(0)
                    + ": put rmqemu in the PATH (a virtual environment that is not active hides it), or set RMQEMU to it",
                failed);
        }
    }

    /** Waits for the line with the addresses; if there is none, ends the process and says why. */
    JsonObject ready() throws IOException {
        CompletableFuture<String> first = new CompletableFuture<>();
        follow(process.getInputStream(), first::complete, () -> first.complete(null));
        try {
            String line = first.get(READY_S_MAX, TimeUnit.SECONDS);
            if (line == null) {
                process.waitFor(STOP_S_MAX, TimeUnit.SECONDS);
                errorReader.join(TimeUnit.SECONDS.toMillis(STOP_S_MAX));
                throw new IOException(process.isAlive() ? command + " closed its output" : ending());
            }
            return addresses(line);
        } catch (TimeoutException late) {
            throw new IOException(command + " was not ready after " + READY_S_MAX + " s" + said());
        } catch (ExecutionException impossible) {
            throw new AssertionError(impossible);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException(command + ": interrupted");
        }
    }

    boolean isAlive() {
        return process.isAlive();
    }

    /** How it has ended, in a sentence; not to be called while it runs. */
    String ending() {
        int code = process.exitValue();
        String signal = code > 128 ? " (signal " + (code - 128) + ")" : "";
        return command + " ended with code " + code + signal + said();
    }

    @Override
    public void close() throws InterruptedException {
        isClosed = true;
        process.destroy();
        if (!process.waitFor(STOP_S_MAX, TimeUnit.SECONDS)) {
            process.destroyForcibly().waitFor();
        }
    }

    private String said() {
        return errors.isEmpty() ? "" : ":\n" + String.join("\n", errors);
    }

    private JsonObject addresses(String line) throws IOException {
        try {
            JsonElement read = JsonParser.parseString(line);
            if (read.isJsonObject() && read.getAsJsonObject().has("namesrv")) {
                return read.getAsJsonObject();
            }
        } catch (JsonParseException notJson) {
            // as other JSON than expected
        }
        throw new IOException("RMQEMU is " + program() + ", which is no rmqemu: its first line is: " + line);
    }

    /** Errors and warnings of the nodes; what they write when the cluster is closed is of no use. */
    private void passOn(String line) {
        if (isClosed) {
            return;
        }
        System.err.println(line);
        errors.add(line);
        if (errors.size() > KEPT_LINES_MAX) {
            errors.poll();
        }
    }

    private static Thread follow(InputStream stream, Consumer<String> each, Runnable end) {
        Thread thread = new Thread(() -> {
            try (BufferedReader lines = new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    each.accept(line);
                }
            } catch (IOException closed) {
                // Process.destroy closes the streams while they are read: an end as any other
            } finally {
                end.run();
            }
        }, "rmqemu up");
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** A path with spaces, if there is such a file; otherwise words: {@code python -m rocketmq_emulator}. */
    private static List<String> program() {
        String given = System.getenv("RMQEMU");
        if (given == null || given.isBlank()) {
            return List.of("rmqemu");
        }
        return new File(given).isFile() ? List.of(given) : List.of(given.strip().split("\\s+"));
    }
}
