/** The name that a file run has in place of a function's: `FILE`, or `FILE::FUNCTION`, as people write it. */
export function fileRunName(fileName: string, functionName: string | null): string {
  return functionName === null ? fileName : `${fileName}::${functionName}`;
}

/** Whether the run is a file run: no function's name has a dot, and the name of a file to run always has. */
export function isFileRun({ functionName }: { readonly functionName: string }): boolean {
  return functionName.includes(".");
}
