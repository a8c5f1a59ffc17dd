import { PYTHON_DIR } from "../../../config/package-files.ts";

const SERVE = `def serve():
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        print("the app cannot start: %s: %s" % (sys.argv[1], error.strerror), file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
`;

/** Becomes the server that the arguments name, which is looked for on the app's own path. */
export const SERVER_CODE = `import os, sys
${SERVE}serve()`;

/**
 * A keeper whose ward becomes that server. It waits for a byte on its stdin, which comes once it is in its group. If the
 * end comes instead, the service has died, and nothing begins. The server gets nothing there, and no descriptor but the
 * first three.
 */
export const KEPT_SERVER_CODE = `import os, sys; sys.path.insert(0, ${JSON.stringify(PYTHON_DIR)})
from millrace_worker import keeper, linux
service = os.getppid()
if not os.read(0, 1):
    os._exit(1)
null = os.open(os.devnull, os.O_RDONLY)
os.dup2(null, 0)
linux.close_inherited(3)
${SERVE}keeper.keep(serve, service)`;
