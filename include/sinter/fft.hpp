// fft.hpp: discrete Fourier transforms along one axis or several: fft, ifft, rfft, irfft, fft2, fftn; shifts and frequencies.
#pragma once

#include "complex.hpp"
#include "fft/functions.hpp"
#include "fft/grids.hpp"
