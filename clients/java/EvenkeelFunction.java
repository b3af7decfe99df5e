import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The partitioning function of an epoch: the channel of each key, bit for bit as Spark finds it.
 *
 * <p>docs/reference/FUNCTION.md is the specification. It needs Java 17 and no library. Objects are
 * immutable, so threads may share one, and serializable, so that Flink can ship one with a job. Test
 * it with: java EvenkeelFunction.java ../vectors.txt
 */
public final class EvenkeelFunction implements Serializable {
    // Raise it with any change of the fields below: what older code has written is then refused.
    private static final long serialVersionUID = 1;
    private static final long SEED = 42;
    private static final long P1 = 0x9E3779B185EBCA87L;
    private static final long P2 = 0xC2B2AE3D27D4EB4FL;
    private static final long P3 = 0x165667B19E3779F9L;
    private static final long P4 = 0x85EBCA77C2B2AE63L;
    private static final long P5 = 0x27D4EB2F165667C5L;
    private static final long PARTS = 1L << 24;
    private static final int CHANNEL_BITS = 20;

    private final List<String> keyTypes;
    private final String rowType;
    private final int[] slots;
    private final long rowSlots;
    private final Map<Long, Integer> explicit = new HashMap<>();
    private final Map<Long, Integer> split = new HashMap<>();
    private final int[] homes;
    private final long[] cells;
    private final int bits;

    /** Reads the text of an epoch's epoch.json, or of its object "function". */
    public EvenkeelFunction(String json) {
        this(parse(json));
    }

    /** Reads the same as {@link #parse} returns it: a parser that makes hashes Doubles loses them. */
    public EvenkeelFunction(Map<String, Object> epoch) {
        Map<String, Object> function = epoch;
        if (epoch.containsKey("function")) {
            expect(number(epoch.get("format")) == 1, "epoch format 1", epoch.get("format"));
            function = map(epoch.get("function"));
        }
        long format = number(function.get("format"));
        expect(format >= 1 && format <= 3, "function format 1, 2 or 3", format);
        expect(format == 3 || function.containsKey("split") == (format == 2), "split keys from format 2 on", format);
        expect(function.containsKey("row_slots") == (format == 3), "row_slots in format 3 alone", format);
        keyTypes = list(function.get("key")).stream().map(c -> (String) map(c).get("type")).toList();
        Object row = function.get("row");
        rowType = row == null ? null : (String) map(row).get("type");
        slots = channels(function.get("slots"));
        expect(slots.length > 0 && !keyTypes.isEmpty(), "at least 1 slot and 1 key column", "none");
        rowSlots = format == 3 ? number(function.get("row_slots")) : slots.length;
        expect(rowSlots > 0 && slots.length % rowSlots == 0, "a multiple of row_slots", slots.length);
        List<Object> keys = list(map(function.get("explicit")).get("keys"));
        int[] owners = channels(map(function.get("explicit")).get("channels"));
        expect(owners.length == keys.size(), keys.size() + " channels of keys", owners.length);
        for (int i = 0; i < owners.length; i++) {
            explicit.put(number(keys.get(i)), owners[i]);
        }
        Map<String, Object> none = Map.of("keys", List.of(), "owners", List.of(), "shares", List.of());
        Map<String, Object> shared = map(function.getOrDefault("split", none));
        List<Object> splitKeys = list(shared.get("keys"));
        List<Object> ownerLists = list(shared.get("owners"));
        List<Object> shareLists = list(shared.get("shares"));
        expect(ownerLists.size() == splitKeys.size() && shareLists.size() == splitKeys.size(),
                splitKeys.size() + " lists of owners and of shares", ownerLists.size());
        int most = ownerLists.stream().mapToInt(o -> list(o).size()).max().orElse(2);
        bits = 32 - Integer.numberOfLeadingZeros(Math.max(most, 2) - 1);
        homes = new int[splitKeys.size()];
        cells = new long[splitKeys.size() << bits];
        for (int i = 0; i < homes.length; i++) {
            int[] channels = channels(ownerLists.get(i));
            long[] shares = list(shareLists.get(i)).stream().mapToLong(EvenkeelFunction::number).toArray();
            expect(channels.length > 1 && shares.length == channels.length,
                    "2 owners or more, and as many shares", channels.length);
            split.put(number(splitKeys.get(i)), i);
            homes[i] = channels[0];
            System.arraycopy(aliasCells(channels, shares, 1 << bits), 0, cells, i << bits, 1 << bits);
        }
    }

    /**
     * Returns the channel of a row.
     *
     * @param key one value for each key column: String, byte[], Number, LocalDate, or null
     * @param row the value of the row column, which decides for split keys; may be null
     */
    public int channel(List<?> key, Object row) {
        long h = hash(key);
        Integer at = split.get(h);
        if (at == null) {
            return channelOf(h);
        }
        if (rowType == null) {
            throw new IllegalStateException("keys are split, and the function has no row column");
        }
        long r = hashOf(row, rowType, hashOf(h, "bigint", SEED));
        long cell = cells[(at << bits) + (int) (r >>> (64 - bits))];
        boolean first = (r & (PARTS - 1)) < cell >>> 2 * CHANNEL_BITS;
        return (int) (cell >>> (first ? 0 : CHANNEL_BITS)) & ((1 << CHANNEL_BITS) - 1);
    }

    /** Returns the channel of a key, or the home of a split key. */
    public int home(List<?> key) {
        long h = hash(key);
        Integer at = split.get(h);
        return at == null ? channelOf(h) : homes[at];
    }

    /** Returns the hash of a key, as Spark's xxhash64 of its columns. */
    public long hash(List<?> key) {
        if (key.size() != keyTypes.size()) {
            throw new IllegalArgumentException(
                    "expected " + keyTypes.size() + " key columns, got " + key.size());
        }
        long h = SEED;
        for (int i = 0; i < key.size(); i++) {
            h = hashOf(key.get(i), keyTypes.get(i), h);
        }
        return h;
    }

    /** Returns what a row of a hash has in the column slot: 0 to R - 1. */
    public int slot(long hash) {
        return (int) Math.floorMod(hash, rowSlots);
    }

    private int channelOf(long hash) {
        Integer owner = explicit.get(hash);
        return owner == null ? slots[(int) Math.floorMod(hash, (long) slots.length)] : owner;
    }

    private static long hashOf(Object value, String type, long seed) {
        if (value == null) {
            return seed;
        }
        return switch (type) {
            case "string" -> xxh64(utf8(as(String.class, value, type)), seed);
            case "binary" -> xxh64(as(byte[].class, value, type), seed);
            case "tinyint" -> xxh64(little(whole(value, type, 8), 4), seed);
            case "smallint" -> xxh64(little(whole(value, type, 16), 4), seed);
            case "int" -> xxh64(little(whole(value, type, 32), 4), seed);
            case "bigint" -> xxh64(little(whole(value, type, 64), 8), seed);
            case "date" -> {
                long day = as(LocalDate.class, value, type).toEpochDay();
                yield xxh64(little(whole(day, type, 32), 4), seed);
            }
            default -> throw new IllegalArgumentException("no key can be of type " + type);
        };
    }

    private static <T> T as(Class<T> kind, Object value, String type) {
        if (!kind.isInstance(value)) {
            throw unlike(value, type);
        }
        return kind.cast(value);
    }

    private static IllegalArgumentException unlike(Object value, String type) {
        String kind = value.getClass().getSimpleName();
        return new IllegalArgumentException(
                "expected a value of type " + type + ", got " + value + " (" + kind + ")");
    }

    private static byte[] utf8(String text) {
        try {  // getBytes would write half of a surrogate pair as another character
            ByteBuffer found = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            return Arrays.copyOf(found.array(), found.limit());
        } catch (CharacterCodingException error) {
            throw new IllegalArgumentException("expected text, got half of a surrogate pair", error);
        }
    }

    private static long whole(Object value, String type, int bits) {
        long number = number(as(Number.class, value, type));
        if (number << 64 - bits >> 64 - bits != number) {
            throw unlike(value, type);
        }
        return number;
    }

    private static byte[] little(long value, int size) {
        byte[] bytes = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(value).array();
        return Arrays.copyOf(bytes, size);
    }

    private static long xxh64(byte[] data, long seed) {
        ByteBuffer in = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        long h;
        if (data.length >= 32) {
            long[] lanes = {seed + P1 + P2, seed + P2, seed, seed - P1};
            while (in.remaining() >= 32) {
                for (int i = 0; i < 4; i++) {
                    lanes[i] = round(lanes[i], in.getLong());
                }
            }
            h = Long.rotateLeft(lanes[0], 1) + Long.rotateLeft(lanes[1], 7)
                    + Long.rotateLeft(lanes[2], 12) + Long.rotateLeft(lanes[3], 18);
            for (long lane : lanes) {
                h = (h ^ round(0, lane)) * P1 + P4;
            }
        } else {
            h = seed + P5;
        }
        h += data.length;
        while (in.remaining() >= 8) {
            h = Long.rotateLeft(h ^ round(0, in.getLong()), 27) * P1 + P4;
        }
        if (in.remaining() >= 4) {
            h = Long.rotateLeft(h ^ (in.getInt() & 0xFFFFFFFFL) * P1, 23) * P2 + P3;
        }
        while (in.hasRemaining()) {
            h = Long.rotateLeft(h ^ (in.get() & 0xFFL) * P5, 11) * P1;
        }
        h = (h ^ h >>> 33) * P2;
        h = (h ^ h >>> 29) * P3;
        return h ^ h >>> 32;
    }

    private static long round(long lane, long word) {
        return Long.rotateLeft(lane + word * P2, 31) * P1;
    }

    /** The alias table of one split key: FUNCTION.md, "Split keys". */
    private static long[] aliasCells(int[] channels, long[] shares, int size) {
        long[] left = new long[size];
        int[] own = new int[size];
        List<Integer> small = new ArrayList<>();
        List<Integer> large = new ArrayList<>();
        for (int i = 0; i < size; i++) {
            left[i] = i < shares.length ? shares[i] * size : 0;
            own[i] = i < channels.length ? channels[i] : 0;
            if (left[i] < PARTS) {
                small.add(i);
            } else if (left[i] > PARTS) {
                large.add(i);
            }
        }
        long[] keep = new long[size];
        int[] other = own.clone();
        while (!small.isEmpty() && !large.isEmpty()) {
            int i = small.remove(small.size() - 1);
            int j = large.get(large.size() - 1);
            keep[i] = left[i];
            other[i] = own[j];
            left[j] -= PARTS - left[i];
            if (left[j] <= PARTS) {
                large.remove(large.size() - 1);
                if (left[j] < PARTS) {
                    small.add(j);
                }
            }
        }
        long[] found = new long[size];
        for (int i = 0; i < size; i++) {
            found[i] = keep[i] << 2 * CHANNEL_BITS | (long) other[i] << CHANNEL_BITS | own[i];
        }
        return found;
    }

    /** Parses a JSON object: Map, List, String, Long, Double, Boolean or null. */
    public static Map<String, Object> parse(String json) {
        Parser parser = new Parser(json);
        Map<String, Object> found = map(parser.value());
        parser.end();
        return found;
    }

    private static final class Parser {
        private final String text;
        private int at;

        Parser(String text) {
            this.text = text;
        }

        Object value() {
            switch (peek()) {
                case '{': {
                    Map<String, Object> found = new LinkedHashMap<>();
                    for (boolean more = open('}'); more; more = next('}')) {
                        String name = string();
                        expect(':');
                        found.put(name, value());
                    }
                    return found;
                }
                case '[': {
                    List<Object> found = new ArrayList<>();
                    for (boolean more = open(']'); more; more = next(']')) {
                        found.add(value());
                    }
                    return found;
                }
                case '"':
                    return string();
                default:
                    return word();
            }
        }

        void end() {
            if (at < text.length() && !text.substring(at).isBlank()) {
                throw wrong();
            }
        }

        private Object word() {
            int start = at;
            while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
                at++;
            }
            String word = text.substring(start, at);
            return switch (word) {
                case "null" -> null;
                case "true" -> true;
                case "false" -> false;
                default -> word.matches("-?\\d+") ? (Object) Long.valueOf(word) : Double.valueOf(word);
            };
        }

        private String string() {
            expect('"');
            StringBuilder found = new StringBuilder();
            for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
                if (c == '\\') {
                    c = text.charAt(at++);
                    int escape = "bfnrt".indexOf(c);
                    if (c == 'u') {
                        c = (char) Integer.parseInt(text.substring(at, at += 4), 16);
                    } else if (escape >= 0) {
                        c = "\b\f\n\r\t".charAt(escape);
                    }
                }
                found.append(c);
            }
            return found.toString();
        }

        private boolean open(char close) {
            at++;
            if (peek() == close) {
                at++;
                return false;
            }
            return true;
        }

        private boolean next(char close) {
            if (peek() == close) {
                at++;
                return false;
            }
            expect(',');
            return true;
        }

        private void expect(char c) {
            if (peek() != c) {
                throw wrong();
            }
            at++;
        }

        private char peek() {
            while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
                at++;
            }
            if (at == text.length()) {
                throw wrong();
            }
            return text.charAt(at);
        }

        private IllegalArgumentException wrong() {
            return new IllegalArgumentException("expected JSON, got something else at character " + at);
        }
    }

    private static void expect(boolean right, String expected, Object found) {
        if (!right) {
            throw new IllegalArgumentException("expected " + expected + ", got " + found);
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> map(Object value) {
        expect(value instanceof Map, "an object of JSON", value);
        return (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    private static List<Object> list(Object value) {
        expect(value instanceof List, "a list", value);
        return (List<Object>) value;
    }

    private static int[] channels(Object value) {
        int[] found = list(value).stream().mapToInt(v -> Math.toIntExact(number(v))).toArray();
        expect(Arrays.stream(found).allMatch(c -> c >= 0), "channels of 0 or more", value);
        return found;
    }

    private static long number(Object value) {
        boolean rounded = value instanceof Double || value instanceof Float;
        expect(value instanceof Number && !rounded, "a whole number (from parse, or a Long)", value);
        return Long.parseLong(value.toString());
    }

    /** Checks all vectors of a file; exits with 1 if one differs. */
    public static void main(String[] arguments) throws IOException {
        EvenkeelFunction function = null;
        int checked = 0;
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split("\t", -1);
            if (parts[0].equals("function")) {
                function = new EvenkeelFunction(parts[2]);
                continue;
            }
            int columns = function.keyTypes.size();
            List<Object> key = new ArrayList<>();
            for (int i = 0; i < columns; i++) {
                key.add(read(parts[i], function.keyTypes.get(i)));
            }
            Object row = function.rowType == null ? null : read(parts[columns], function.rowType);
            long h = function.hash(key);
            String found = h + "\t" + function.slot(h) + "\t" + function.channel(key, row);
            if (!line.endsWith("\t" + found)) {
                System.err.println("expected " + line + ", got " + found);
                System.exit(1);
            }
            checked++;
        }
        System.out.println(checked + " vectors agree");
    }

    private static Object read(String text, String type) {
        if (text.equals("\\N")) {
            return null;
        }
        return switch (type) {
            case "string" -> new String(HexFormat.of().parseHex(text), StandardCharsets.UTF_8);
            case "binary" -> HexFormat.of().parseHex(text);
            case "date" -> LocalDate.ofEpochDay(Long.parseLong(text));
            default -> Long.valueOf(text);
        };
    }
}
