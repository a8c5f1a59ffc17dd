import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Interpreter } from "../../host/interpreter.ts";

/** Python that waits until a folder's file system has everything on its disk: `sync(folder)`. */
export const PYTHON_SYNC = `def sync(folder):
    import os
    try:
        import ctypes
        if ctypes.CDLL(None).syncfs(os.open(folder, os.O_RDONLY)) == 0:
            return
    except (ImportError, AttributeError, OSError):
        pass
    os.sync()`;

/** Waits until the disk has everything that was written in a folder. */
export async function syncTree(folder: string, { path: python }: Interpreter): Promise<void> {
  const program = `${PYTHON_SYNC}\nimport sys\nsync(sys.argv[1])`;
  await promisify(execFile)(python, ["-I", "-S", "-c", program, folder]);
}
