/** Epoch milliseconds as the API shows them. */
export function timestamp(at: number): string {
  return new Date(at).toISOString();
}
