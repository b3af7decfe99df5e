import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.AbstractFileSystem;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalFs;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.security.AccessControlException;

/**
 * The local file system as a store that can be down, or stand still, below one folder.
 *
 * Every request of this JVM asks `Switch` first, and so does the registry of the Python beside it.
 * Compiled by Spark's own Janino, as chaos starts; it knows no lambdas and few generics.
 */
public class FaultyStore extends RawLocalFileSystem {
    /** What is the matter, and with which folder. One a class, so one a JVM. */
    public static class Switch {
        private static String folder;
        private static long through, stall, until;
        private static int met;
        private static boolean answers;

        /**
         * From now on, below a folder: let so many requests through; then each one fails, or, where
         * there are milliseconds to stall, stands still until these are over. Where these are
         * negative, each one that would change something is refused. Without an answer, the first
         * change after these requests is made, and fails nevertheless.
         */
        public void on(String below, long requests, long milliseconds, boolean answer) {
            synchronized (Switch.class) {
                folder = below;
                through = requests;
                stall = milliseconds;
                answers = answer;
                until = 0;
                met = 0;
            }
        }

        /** All is well again; how many requests have met the fault. */
        public int off() {
            synchronized (Switch.class) {
                folder = null;
                return met;
            }
        }

        public void ask(String path) throws IOException {
            check(path, false);
        }

        /** A change has been made: its answer may be lost. */
        public void answer(String path) throws IOException {
            synchronized (Switch.class) {
                if (folder == null || !path.startsWith(folder) || answers || through-- > 0) return;
                answers = true;
                met++;
                throw new IOException("Connection reset: " + path);
            }
        }

        static void check(String path, boolean changes) throws IOException {
            long rest;
            synchronized (Switch.class) {
                if (folder == null || !path.startsWith(folder) || !answers) return;
                if (through-- > 0) return;
                if (stall < 0) {
                    if (!changes) return;
                    met++;
                    throw new AccessControlException("403 Forbidden: " + path);
                }
                if (stall == 0) {
                    met++;
                    throw new IOException("503 Slow Down: " + path);
                }
                long now = System.currentTimeMillis();
                if (until == 0) until = now + stall;
                rest = until - now;
                if (rest > 0) met++;
            }
            try {
                if (rest > 0) Thread.sleep(rest);
            } catch (InterruptedException e) {
                throw new IOException(e);
            }
        }

        /** Take the place of Hadoop's local file system, for its both APIs, or give it back. */
        public void install(boolean ours) throws Exception {
            URI root = URI.create("file:///");
            Configuration conf = new Configuration();
            FileSystem files = new LocalFileSystem(ours ? new FaultyStore() : new RawLocalFileSystem());
            files.initialize(root, conf);
            Method put = FileSystem.class.getDeclaredMethod(
                "addFileSystemForTesting",
                new Class[] {URI.class, Configuration.class, FileSystem.class});
            put.setAccessible(true);
            put.invoke(null, new Object[] {root, conf, files});
            // Delta commits by the other API, which makes its file system anew each time.
            Field made = AbstractFileSystem.class.getDeclaredField("CONSTRUCTOR_CACHE");
            made.setAccessible(true);
            Map constructors = (Map) made.get(null);
            constructors.remove(LocalFs.class);
            if (ours) {
                Class[] arguments = new Class[] {URI.class, Configuration.class};
                constructors.put(LocalFs.class, Checked.class.getDeclaredConstructor(arguments));
            }
        }
    }

    /** As `LocalFs`, whose own constructor is hidden. */
    public static class Checked extends ChecksumFs {
        public Checked(URI root, Configuration conf) throws IOException, URISyntaxException {
            super(new Plain(root, conf));
        }
    }

    public static class Plain extends DelegateToFileSystem {
        public Plain(URI root, Configuration conf) throws IOException, URISyntaxException {
            super(root, new FaultyStore(), conf, "file", false);
        }

        public int getUriDefaultPort() {
            return -1;
        }

        public FsServerDefaults getServerDefaults(Path path) throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        public FsServerDefaults getServerDefaults() throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        public boolean isValidName(String name) {
            return true;
        }
    }

    private static void ask(Path path) throws IOException {
        Switch.check(path.toUri().getPath(), false);
    }

    private static void askToChange(Path path) throws IOException {
        Switch.check(path.toUri().getPath(), true);
    }

    private static boolean answered(Path path, boolean done) throws IOException {
        if (done) new Switch().answer(path.toUri().getPath());
        return done;
    }

    public FSDataInputStream open(Path path, int buffer) throws IOException {
        ask(path);
        return super.open(path, buffer);
    }

    protected OutputStream createOutputStreamWithMode(Path path, boolean append, FsPermission mode)
            throws IOException {
        askToChange(path);
        return super.createOutputStreamWithMode(path, append, mode);
    }

    public boolean rename(Path from, Path to) throws IOException {
        askToChange(from);
        return answered(from, super.rename(from, to));
    }

    public boolean delete(Path path, boolean recursive) throws IOException {
        askToChange(path);
        return answered(path, super.delete(path, recursive));
    }

    public boolean mkdirs(Path path) throws IOException {
        askToChange(path);
        return super.mkdirs(path);
    }

    public FileStatus[] listStatus(Path path) throws IOException {
        ask(path);
        return super.listStatus(path);
    }

    public boolean exists(Path path) throws IOException {
        ask(path);
        return super.exists(path);
    }

    public FileStatus getFileStatus(Path path) throws IOException {
        ask(path);
        return super.getFileStatus(path);
    }

    public FileStatus getFileLinkStatus(Path path) throws IOException {
        ask(path);
        return super.getFileLinkStatus(path);
    }
}
