/** Python that waits until a folder's file system has everything on its disk: `sync(folder)`. */
export const PYTHON_SYNC = `def sync(folder):
    import os
    try:
        import ctypes
        if ctypes.CDLL(None).syncfs(os.open(folder, os.O_RDONLY)) == 0:
            return
    except (ImportError, AttributeError, OSError):
        pass
    os.sync()`;
