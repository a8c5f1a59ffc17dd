import { hostPython, hostPythons } from "../../host/host-pythons.ts";
import type { Interpreter } from "../../host/interpreter.ts";
import { BuildError } from "./build-error.ts";
import type { BuildSite } from "./site.ts";

/**
 * The Python that the app asks for, such as "3.12", or the service's own where it asks for none. The third number
 * is a wish. Throws a `BuildError` that lists what there is.
 */
export async function choosePython(
  wanted: string | null,
  own: Interpreter,
  site: Pick<BuildSite, "host" | "say">,
): Promise<Interpreter> {
  if (wanted === null) return own;
  const searchPath = site.host["PATH"] ?? "";
  const [, minor = ""] = wanted.split(".");
  const isOwn = own.version.startsWith(`3.${minor}.`);
  const python = isOwn ? own : await hostPython(Number(minor), searchPath);
  if (!python) {
    const others = [own, ...(await hostPythons(searchPath))].map(({ version }) => minorOf(version));
    const list = [...new Set(others)].toSorted((a, b) => Number(a.slice(2)) - Number(b.slice(2))).join(", ");
    throw new BuildError(`python_version = "${wanted}" is not installed on this host, which has ${list}`);
  }
  if (wanted.split(".").length === 3 && python.version !== wanted) {
    site.say(
      `warning: python_version = "${wanted}" is not installed on this host; using ${python.version}`,
      "stderr",
    );
  }
  return python;
}

function minorOf(version: string): string {
  return version.split(".").slice(0, 2).join(".");
}
