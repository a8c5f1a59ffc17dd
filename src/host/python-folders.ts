import path from "node:path";
import { readdir } from "../kit/files.ts";

/** Of one version manager; nobody has as many. */
const MAX_INSTALLED = 200;
const CONDA_NAMES = ["miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba"];

/**
 * The folders that may hold a `python3.12`, in the order they are looked through: those of the PATH, then what pyenv,
 * uv, mise and conda have installed, the newest of each first.
 */
export async function pythonFolders(host: NodeJS.ProcessEnv): Promise<string[]> {
  const condas = condaRoots(host);
  const installed = await Promise.all(managersOf(host).map(below));
  const environments = await Promise.all(condas.map((root) => below(path.join(root, "envs"))));
  const folders = [
    ...(host["PATH"] ?? "").split(path.delimiter),
    ...[...installed.flat(), ...condas, ...environments.flat()].map((folder) => path.join(folder, "bin")),
  ];
  return [...new Set(folders.filter((folder) => path.isAbsolute(folder)))];
}

/** Folders of version managers, and of the PATH, that this user may not look into. */
export async function closedFolders(host: NodeJS.ProcessEnv): Promise<string[]> {
  const folders = [...managersOf(host), ...(host["PATH"] ?? "").split(path.delimiter)];
  const looks = folders.map(async (folder) => {
    const error = await readdir(folder).then(
      () => null,
      (reason: NodeJS.ErrnoException) => reason,
    );
    return error?.code === "EACCES" ? [folder] : [];
  });
  return [...new Set((await Promise.all(looks)).flat())];
}

/** Where pyenv, uv and mise have a folder for each version. */
function managersOf(host: NodeJS.ProcessEnv): string[] {
  const home = host["HOME"] ?? "/";
  const data = host["XDG_DATA_HOME"] ?? path.join(home, ".local", "share");
  return [
    path.join(host["PYENV_ROOT"] ?? path.join(home, ".pyenv"), "versions"),
    host["UV_PYTHON_INSTALL_DIR"] ?? path.join(data, "uv", "python"),
    path.join(host["MISE_DATA_DIR"] ?? path.join(data, "mise"), "installs", "python"),
  ];
}

/** Where conda and its relatives put themselves, as far as anybody says. */
function condaRoots(host: NodeJS.ProcessEnv): string[] {
  const home = host["HOME"] ?? "/";
  const program = host["CONDA_EXE"];
  const named = [
    program && path.dirname(path.dirname(program)),
    host["CONDA_ROOT"],
    host["MAMBA_ROOT_PREFIX"],
  ].filter((root) => root !== undefined && root !== "");
  const usual = CONDA_NAMES.flatMap((name) => [path.join(home, name), path.join("/opt", name)]);
  return [...named, ...usual, "/opt/conda"] as string[];
}

/** The folders in a folder, the highest version first; none if it is not there. */
async function below(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  const order = new Intl.Collator("en", { numeric: true });
  return names
    .toSorted((a, b) => order.compare(b, a))
    .slice(0, MAX_INSTALLED)
    .map((name) => path.join(folder, name));
}
