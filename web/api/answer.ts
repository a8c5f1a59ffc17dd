type ErrorBody = { readonly message?: string; readonly code?: string; readonly details?: readonly unknown[] };

/** An answer that is no success, with the service's own words. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: readonly unknown[];

  constructor(status: number, { message, code, details }: ErrorBody) {
    super(message ?? `The service answered ${status}.`);
    this.name = "ApiError";
    this.status = status;
    this.code = code ?? "unknown";
    this.details = details ?? [];
  }

  static async of(response: Response): Promise<ApiError> {
    const body = (await response.json().catch(() => ({}))) as ErrorBody;
    return new ApiError(response.status, body);
  }
}

/** The JSON of a good answer; throws an ApiError for any other. */
export async function readAnswer<T>(response: Response): Promise<T> {
  if (!response.ok) throw await ApiError.of(response);
  return (await response.json()) as T;
}

/** What to tell a person of anything that was thrown. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  if (error instanceof TypeError) return "The service cannot be reached.";
  return error instanceof Error ? error.message : String(error);
}
