/** A hot method, in a class file for Java 17: `javac --release 17 Work.java`. */
public class Work {
    static double leafWork(int n) {
        double total = 0;
        for (int i = 0; i < n; i++) total += Math.sqrt(i % 7);
        return total;
    }

    static double outerWork(int count) {
        double total = 0;
        for (int i = 0; i < count; i++) total += leafWork(20000 + (i & 1));
        return total;
    }

    public static void main(String[] arguments) {
        System.out.println("process " + ProcessHandle.current().pid());
        System.out.println(outerWork(Integer.parseInt(arguments[0])));
    }
}
