/** What one caller was told. */
export type Told = {
  readonly id: string;
  readonly status: number;
  readonly code: string;
  readonly message: string;
};

/** What callers were told of their runs: each is accepted, answered, refused, or in doubt; anything else is a fault. */
export class JudgedCalls {
  /** 202, with the argument. */
  readonly accepted = new Map<string, number>();
  /** Answered with a result. */
  readonly answered = new Set<string>();
  /** 503, nothing was accepted. */
  readonly refused = new Map<string, string>();
  /** 503, and whoever asks for the run will learn it. */
  readonly inDoubt = new Set<string>();
  readonly faults: string[] = [];

  /** Something that no caller should see. */
  fault(what: string, told: unknown): void {
    this.faults.push(`${what}: ${JSON.stringify(told)}`);
  }

  /** A run that nobody waits for. */
  judgeAsync(n: number, told: Told): "accepted" | "refused" {
    if (told.status === 202) {
      this.accepted.set(told.id, n);
      return "accepted";
    }
    this.judgeRefusal("an async call", told);
    return "refused";
  }

  /** A run that was not accepted: only the storage may be the reason. */
  judgeRefusal(what: string, told: Told): void {
    if (told.status === 503 && told.code === "storage_unavailable") this.refused.set(told.id, told.message);
    else if (told.status === 503 && told.code === "in_doubt") this.inDoubt.add(told.id);
    else this.fault(what, told);
  }
}
