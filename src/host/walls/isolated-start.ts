import { PYTHON_DIR } from "../../config/package-files.ts";

/** Isolated, and without `site`: no variable, no file beside it and no package decides what runs. */
export function startOf(
  module: `${"millrace_agent" | "millrace_walls" | "millrace_storage"}.${string}`,
): string[] {
  const code = `import sys; sys.path.insert(0, ${JSON.stringify(PYTHON_DIR)}); from ${module} import main; main()`;
  return ["-I", "-S", "-c", code];
}
