import { attack } from "../attack.ts";
import type { Attack, Wall } from "../attack.ts";

/** Planted in the project's storage, which the service reads for its callers. */
const planted = (stoppedBy: Wall, name: string, code: string, path: string, times = 1): Attack => ({
  ...attack(stoppedBy, name, code),
  thenAsksFor: { path, times },
});

/**
 * How often the service is asked while something changes under its hands. One that looks first and opens then meets a
 * link every few times; on `uid` each answer takes two processes.
 */
const RACES = 10;

/** Ways to have the service itself give away, or stumble over, what an app has put into its storage. */
export const STORAGE: readonly Attack[] = [
  planted(
    "service",
    "have the service read a link to the master key",
    `os.symlink(master_key, own + "/link")`,
    "link",
  ),
  planted(
    "service",
    "have it read by a link to the data directory",
    `os.symlink(data_dir, own + "/folder")`,
    "folder/owner-token",
  ),
  planted(
    "service",
    "have it read by a link that goes up",
    `os.symlink("../../../..", own + "/up")`,
    "up/owner-token",
  ),
  planted(
    "landlock",
    "have it read a second name of the master key",
    `os.link(master_key, own + "/name")`,
    "name",
  ),
  planted("service", "have it wait for a pipe", `os.mkfifo(own + "/pipe")`, "pipe"),
  planted(
    "service",
    "have it read a file that becomes a link",
    `if os.fork() == 0:
    race, link, file = (own + "/" + name for name in ("race", "race-link", "race-file"))
    until = time.monotonic() + 20
    while time.monotonic() < until and not os.path.exists(own + "/race-over"):
        os.symlink(master_key, link)
        os.replace(link, race)
        with open(file, "wb") as plain:
            plain.write(b"plain")
        os.replace(file, race)
    os._exit(0)`,
    "race",
    RACES,
  ),
  planted(
    "service",
    "have it read in a folder that becomes a link",
    `if os.fork() == 0:
    swap, link, folder = (own + "/" + name for name in ("swap", "swap-link", "swap-folder"))
    os.mkdir(swap)
    os.symlink(data_dir, link)
    until = time.monotonic() + 20
    while time.monotonic() < until and not os.path.exists(own + "/swap-over"):
        os.rename(swap, folder)
        os.rename(link, swap)
        os.rename(swap, link)
        os.rename(folder, swap)
    os._exit(0)`,
    "swap/owner-token",
    RACES,
  ),
];
