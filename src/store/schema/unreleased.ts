/** The last commit that reads what was written before the first release. */
const LAST_READER = "56cff3b1";
/** The name of the migration that every database since the first release begins with. */
export const FIRST_MIGRATION = "0001-initial";

/** Something in a format from before the first release, which nothing here can read. */
export class UnreleasedFormat extends Error {
  constructor(what: string) {
    super(
      `${what} was written by a version of Millrace from before the first release, which this version cannot read, ` +
        `and was left unchanged: use commit ${LAST_READER} to read it, or start with a new data directory ` +
        "(MILLRACE_DATA_DIR) and, on Postgres, a new database (MILLRACE_DATABASE_URL)",
    );
    this.name = "UnreleasedFormat";
  }
}

/** Whether a database that has been through these migrations is from before the first release. */
export function isUnreleased(migrations: readonly string[]): boolean {
  return migrations.length > 0 && !migrations.includes(FIRST_MIGRATION);
}
