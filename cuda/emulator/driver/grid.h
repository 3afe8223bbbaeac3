// Running a kernel over its grid on the host.
#ifndef SUREPIPE_GRID_H
#define SUREPIPE_GRID_H

struct emulated_kernel {
  const char *name;
  void (*call)(void **params); // as one thread of the grid
  int params;
  bool barriers; // whether the threads of a block wait for each other
};

// find_kernel returns null if no source defines the name.
const emulated_kernel *find_kernel(const char *name);

// run_grid runs every thread of the grid. It returns false where some threads of a
// block wait at a barrier that others never reach.
bool run_grid(const emulated_kernel *k, unsigned gx, unsigned gy, unsigned bx, unsigned by, void **params);

#endif
