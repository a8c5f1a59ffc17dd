import { type Attack, attack, attacks, type Codes } from "../attack.ts";

/** Ways to open a device file. A file in the app's storage has this name meanwhile. */
const made = (make: string): string => `path = storage + "/gpu-" + tag
def attempt(node):
    try:
        ${make}
        use(path)
    finally:
        if os.path.lexists(path):
            os.unlink(path)
`;

/** Ways to use a GPU: what is tried with each device file of one. */
const WAYS: Codes = {
  "open a GPU": `attempt = use`,
  "open a GPU for reading": `attempt = lambda node: use(node, os.O_RDONLY)`,
  "open a GPU by a descriptor of its name": `attempt = lambda node: use("/proc/self/fd/%d" % os.open(node, os.O_PATH))`,
  "open a GPU by its number": `attempt = lambda node: use("/dev/char/%d:%d" % (os.major(gpu_numbers[node]), os.minor(gpu_numbers[node])))`,
  "open a GPU by its own root": `attempt = lambda node: use("/proc/self/root" + node)`,
  "open a GPU by the first process's root": `attempt = lambda node: use("/proc/1/root" + node)`,
  "open a GPU by the service's root": `attempt = lambda node: use("/proc/%d/root%s" % (service_pid, node))`,
  "open a GPU by its keeper's root": `attempt = lambda node: use("/proc/%d/root%s" % (outer_pid, node))`,
  "open a GPU by a neighbour's root": `attempt = lambda node: use("/proc/%d/root%s" % (neighbour_pid, node))`,
  "open a GPU by a link": made(`os.symlink(node, path)`),
  "open a GPU by a second name": made(`os.link(node, path)`),
  "make a device file of a GPU": made(`os.mknod(path, 0o20600, gpu_numbers[node])`),
  "open a GPU through a mount of its own": made(`os.close(os.open(path, os.O_CREAT))
        call("mount", node.encode(), path.encode(), 0, 4096, 0)`),
  "take the mount of a GPU away": `def attempt(node):
    call("umount2", node.encode(), 2)
    use(node)
`,
  // A mount that opens no devices has the attribute 4.
  "have the mount of a GPU open devices": `def attempt(node):
    call("mount_setattr", -100, node.encode(), 0, struct.pack("=QQQQ", 0, 4, 0, 0), 32)
    use(node)
`,
  "open a GPU in a namespace of its own": `def attempt(node):
    call("unshare", 0x10020000)
    call("mount", 0, node.encode(), 0, 32 | 4096, 0)
    use(node)
`,
  "open a GPU with variables for all of them": `def attempt(node):
    os.environ.update(NVIDIA_VISIBLE_DEVICES="all", CUDA_VISIBLE_DEVICES=",".join(map(str, range(len(gpu_files)))))
    use(node)
`,
};

/** Each way, to more GPUs than the app was granted. */
function beyond(granted: number): Codes {
  return Object.fromEntries(
    Object.entries(WAYS).map(([name, way]) => [
      granted === 0 ? name : `with a GPU of its own: ${name}`,
      `${way}\nopen_more(gpu_files, attempt, ${granted})`,
    ]),
  );
}

/** Ways to GPUs that an app was not granted: by one that has none, and by one that has another. */
export const GPUS: readonly Attack[] = [
  ...attacks("landlock", beyond(0), { needs: "gpu_files" }),
  ...attacks("landlock", beyond(1), { needs: "other_gpus", from: "gpu" }),
  // Memory of a GPU that the bus shows. Only root may read it there.
  attack(
    "uid",
    "read a GPU's memory by its bus",
    `bus = "/sys/bus/pci/drivers/nvidia/"
files = [bus + name + "/resource" + str(n) for name in os.listdir(bus) if ":" in name for n in range(6)]
open_more(files, lambda path: use(path, os.O_RDONLY), 0)`,
    { needs: "gpu_files" },
  ),
];
