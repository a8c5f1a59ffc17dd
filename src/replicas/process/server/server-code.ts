import { PYTHON_DIR } from "../../../config/package-files.ts";

/**
 * A keeper whose ward becomes the server that the arguments name. Nothing comes by its stdin, and it has no descriptor
 * but the first three.
 */
export const SERVER_CODE = `import os, sys; sys.path.insert(0, ${JSON.stringify(PYTHON_DIR)})
from millrace_worker import keeper, linux
null = os.open(os.devnull, os.O_RDONLY)
os.dup2(null, 0)
linux.close_inherited(3)
def serve():
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        print("the app cannot start: %s: %s" % (sys.argv[1], error.strerror), file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
keeper.keep(serve, os.getppid())`;
