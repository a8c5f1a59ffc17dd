import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { PYTHON_DIR } from "../../config/package-files.ts";

type Told = { readonly deployment?: string; readonly hardware?: string; readonly server?: boolean };

/** The apps that are deployed, all of the same code, with what their files say. */
const CAST = {
  hostile: {},
  /** Whoever is attacked by the others, and must notice nothing. */
  neighbour: {},
  offline: { deployment: "network = false" },
  egress: { deployment: 'network = "egress"' },
  sockets: { deployment: "unix_sockets = true" },
  bomber: { hardware: "cpu = 0.25\nmemory = 0.25" },
  /** Servers with the same port in their code; the second is attacked by the first. */
  server: { server: true },
  rival: { server: true },
  builder: { deployment: `shell_commands = ["python3 -c 'import main; main.run_file()'"]` },
} as const satisfies Record<string, Told>;
export type Part = keyof typeof CAST;

/** As `server.py` has it. */
export const SERVER_PORT_IN_CODE = 8000;

const SOURCES = path.join(PYTHON_DIR, "millrace_escape");

/** Writes the folder of one of the apps; `order` is for the app that attacks while it is built. */
export function writePart(part: Part, name: string, folder: string, order: object | null): void {
  const { deployment = "", hardware = "", server = false }: Told = CAST[part];
  mkdirSync(folder);
  copyFileSync(path.join(SOURCES, "hostile.py"), path.join(folder, "main.py"));
  for (const name of ["hostile.py", "network_tricks.py", "server.py", "sitecustomize.py"])
    copyFileSync(path.join(SOURCES, name), path.join(folder, name));
  const toml = [
    `[deployment]\nname = "${name}"\n${deployment}`,
    `[hardware]\n${hardware}`,
    // A server's port is attacked, so the server stays.
    `[scaling]\nmin_replicas = ${server ? 1 : 0}\nmax_replicas = 1`,
    ...(server
      ? [`[runtime.custom]\nentrypoint = ["python", "server.py"]\nport = ${SERVER_PORT_IN_CODE}`]
      : []),
  ];
  writeFileSync(path.join(folder, "millrace.toml"), `${toml.join("\n")}\n`);
  if (order !== null) writeFileSync(path.join(folder, "order.json"), JSON.stringify(order));
}
