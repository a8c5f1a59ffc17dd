/** The name that a run of a file has in place of a function's: `FILE`, or `FILE::FUNCTION`, as people write it. */
export function fileRunName(fileName: string, functionName: string | null): string {
  return functionName === null ? fileName : `${fileName}::${functionName}`;
}

/** Whether the run is one of a file: no function's name has a dot, and the name of a file to run always has. */
export function isFileRun({ functionName }: { readonly functionName: string }): boolean {
  return functionName.includes(".");
}
