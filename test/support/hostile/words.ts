/** What a service with hostile apps says on its stdout, one JSON object a line. */
export type ServiceWord =
  | { readonly up: { readonly apiUrl: string; readonly projectId: string; readonly token: string } }
  | {
      readonly report: { readonly cases: number; readonly plans: number; readonly rssBytes: number | null };
    }
  | {
      readonly stopped: { readonly unanswered: number; readonly faults: Readonly<Record<string, number>> };
    };
