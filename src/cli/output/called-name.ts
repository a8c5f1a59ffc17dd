/** What a run has called: a function by its name, a server by method and path. */
export function calledName(run: { readonly functionName: string; readonly method: string }): string {
  return run.functionName.startsWith("/") ? `${run.method} ${run.functionName}` : run.functionName;
}
