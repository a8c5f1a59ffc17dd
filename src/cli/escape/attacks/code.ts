import { attack, planting, proven } from "../attack.ts";
import type { Attack } from "../attack.ts";

/** Ways to have code run later, elsewhere: in the next start of the app, in other apps, or outside all walls. */
export const CODE: readonly Attack[] = [
  planting("landlock", "plant a module in its own code", "bundle", "usercustomize.py"),
  planting("landlock", "plant bytecode of its own code", "bundle", "main.pyc"),
  planting("landlock", "plant a module in another app's code", "other_bundle", "usercustomize.py"),
  attack(
    "landlock",
    "plant a .pth file beside its packages",
    `make(sysconfig.get_paths()["purelib"] + "/millrace-planted.pth")`,
  ),
  attack(
    "landlock",
    "plant a module in Python's library",
    `make(os.path.dirname(os.__file__) + "/millrace_planted.py")`,
  ),
  attack(
    "landlock",
    "replace its interpreter",
    `make(os.path.dirname(sys.executable) + "/millrace-planted")`,
  ),
  attack("landlock", "change the settings of the host", `make("/etc/millrace-planted")`),
  attack("landlock", "have the host start a program", `make("/etc/cron.d/millrace-planted")`),
  attack(
    "landlock",
    "plant bytecode of the harness",
    `make(harness_dir + "/millrace_worker/__pycache__/planted.pyc")`,
  ),
  attack(
    "landlock",
    "plant a module in the outer keeper",
    `make(harness_dir + "/millrace_walls/planted.py")`,
  ),
  proven("landlock", "plant a bundle", `make(os.path.dirname(other_bundle) + "/planted-" + tag)`),
  // Python looked for it before the app's first line: in the folder that the secret PYTHONPATH names.
  attack("process", "run outside by PYTHONPATH and sitecustomize", `require(customized == "0")`),
];
