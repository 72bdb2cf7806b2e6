// Owns the precompiled header: catch_main.cc must be compiled without it.
#include "tests/support/catch.h"
