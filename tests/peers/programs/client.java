// Java's two clients: `client.java URL SIZE`. The older one sends all of a body before it reads.

import java.io.IOException;
import java.net.HttpRetryException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

class Main {
    /** How the older client frames a body. */
    enum Framing { BUFFERED, LENGTH, CHUNKS }

    static String url;

    public static void main(String[] args) throws Exception {
        url = args[0];
        byte[] body = new byte[Integer.parseInt(args[1])];
        Arrays.fill(body, (byte) 'x');
        Map<String, Integer> statuses = Map.of("/buffered", 413, "/unread", 403, "/refused", 401);

        // By default it asks for HTTP/2 with each request in clear text (RFC 7540 §3.2).
        for (HttpClient.Version version : HttpClient.Version.values()) {
            HttpClient client = HttpClient.newBuilder().version(version).build();
            for (int round = 0; round < 3; round += 1) {
                expect("/hello", "hello", send(client, "/hello", null).body());
            }
            expect("/large", body, send(client, "/large/" + body.length, null).body());
            expect("/echo", "small", send(client, "/echo", BodyPublishers.ofString("small")).body());
            List<byte[]> pieces = List.of("one ".getBytes(), "two".getBytes());
            expect("/echo", "one two", send(client, "/echo", BodyPublishers.ofByteArrays(pieces)).body());
            for (Map.Entry<String, Integer> row : statuses.entrySet()) {
                for (int round = 0; round < 3; round += 1) {
                    BodyPublisher large = BodyPublishers.ofByteArray(body);
                    expect(row.getKey(), row.getValue(), send(client, row.getKey(), large).statusCode());
                }
            }
        }
        for (Map.Entry<String, Integer> row : statuses.entrySet()) {
            for (Framing framing : Framing.values()) {
                expect(row.getKey() + " " + framing, row.getValue(), post(row.getKey(), body, framing));
            }
        }
    }

    static HttpResponse<byte[]> send(HttpClient client, String path, BodyPublisher body) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path));
        return client.send((body == null ? request : request.POST(body)).build(), BodyHandlers.ofByteArray());
    }

    static int post(String path, byte[] body, Framing framing) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) URI.create(url + path).toURL().openConnection();
        connection.setRequestMethod("POST");
        connection.setDoOutput(true);
        switch (framing) {
            case BUFFERED -> { }
            case LENGTH -> connection.setFixedLengthStreamingMode(body.length);
            case CHUNKS -> connection.setChunkedStreamingMode(0);
        }
        try (var out = connection.getOutputStream()) {
            out.write(body);
        }
        try {
            return connection.getResponseCode();
        } catch (HttpRetryException refused) {
            return refused.responseCode();
        }
    }

    static void expect(String what, String expected, byte[] got) {
        expect(what, expected.getBytes(), got);
    }

    static void expect(String what, byte[] expected, byte[] got) {
        if (!Arrays.equals(expected, got)) {
            throw new AssertionError(what + ": " + got.length + " bytes, which are others");
        }
    }

    static void expect(String what, int expected, int status) {
        if (status != expected) {
            throw new AssertionError(what + ": " + status + " instead of " + expected);
        }
    }
}
