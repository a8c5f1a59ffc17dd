/** A project id as it stands in paths: `p-` and an identifier, of which we mint 8 letters or digits. */
export const PROJECT_ID = /^p-[a-z0-9]{1,40}$/;

/** An app's name, unique within its project. */
export const APP_NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** A function that may be called from outside; a leading underscore keeps a name private. */
export const FUNCTION_NAME = /^[A-Za-z][A-Za-z0-9_]{0,127}$/;

/** A run's id: a UUID in its usual text form, lower case. */
export const RUN_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The app id of the management API. */
export function appId(projectId: string, appName: string): string {
  return `${projectId}-${appName}`;
}
