#include "textflag.h"

DATA ·lines+0(SB)/8, $0.0
DATA ·lines+8(SB)/8, $1.0
DATA ·lines+16(SB)/8, $2.0
DATA ·lines+24(SB)/8, $3.0
GLOBL ·lines(SB), RODATA|NOPTR, $32

DATA ·four+0(SB)/8, $4.0
GLOBL ·four(SB), RODATA|NOPTR, $8

DATA ·one+0(SB)/8, $1.0
GLOBL ·one(SB), RODATA|NOPTR, $8

// PLACES sets the pixels of four lines in R8, R10, R12, R13, and (1 - part, part) of lines 0 and 2 in
// Y4, of lines 1 and 3 in Y5. Y10 are the lines, Y11 the slope, Y12 the place in line 0, Y13 ones.
#define PLACES \
	VMULPD Y10, Y11, Y0 \
	VADDPD Y12, Y0, Y0 \
	VCVTTPD2DQY Y0, X1 \
	VCVTDQ2PD X1, Y2 \
	VSUBPD Y2, Y0, Y2 \
	VSUBPD Y2, Y13, Y3 \
	VUNPCKLPD Y2, Y3, Y4 \
	VUNPCKHPD Y2, Y3, Y5 \
	VMOVD X1, R8 \
	VPEXTRD $1, X1, R10 \
	VPEXTRD $2, X1, R12 \
	VPEXTRD $3, X1, R13

// func gather4(sums *[8]float64, plane *float64, at, slope float64, from, blocks, stride int)
TEXT ·gather4(SB), NOSPLIT, $0-56
	MOVQ sums+0(FP), DI
	MOVQ plane+8(FP), R9
	VBROADCASTSD at+16(FP), Y12
	VBROADCASTSD slope+24(FP), Y11
	MOVQ from+32(FP), AX
	MOVQ blocks+40(FP), CX
	MOVQ stride+48(FP), R11
	VXORPD X10, X10, X10
	VCVTSI2SDQ AX, X10, X10
	VBROADCASTSD X10, Y10
	VADDPD ·lines(SB), Y10, Y10
	VBROADCASTSD ·one(SB), Y13
	VBROADCASTSD ·four(SB), Y14
	VMOVUPD (DI), Y8
	VMOVUPD 32(DI), Y9

block:
	PLACES
	LEAQ (R9)(R11*1), DX
	LEAQ (R9)(R11*2), BX
	LEAQ (DX)(R11*2), SI
	VMOVUPD (R9)(R8*8), X6
	VINSERTF128 $1, (BX)(R12*8), Y6, Y6
	VMOVUPD (DX)(R10*8), X7
	VINSERTF128 $1, (SI)(R13*8), Y7, Y7
	VMULPD Y6, Y4, Y6
	VMULPD Y7, Y5, Y7
	VADDPD Y6, Y8, Y8
	VADDPD Y7, Y9, Y9
	VADDPD Y14, Y10, Y10
	LEAQ (R9)(R11*4), R9
	DECQ CX
	JNZ block
	VMOVUPD Y8, (DI)
	VMOVUPD Y9, 32(DI)
	VZEROUPPER
	RET

// func spread4(plane *float64, at, slope, value float64, from, blocks, stride int)
TEXT ·spread4(SB), NOSPLIT, $0-56
	MOVQ plane+0(FP), R9
	VBROADCASTSD at+8(FP), Y12
	VBROADCASTSD slope+16(FP), Y11
	VBROADCASTSD value+24(FP), Y9
	MOVQ from+32(FP), AX
	MOVQ blocks+40(FP), CX
	MOVQ stride+48(FP), R11
	VXORPD X10, X10, X10
	VCVTSI2SDQ AX, X10, X10
	VBROADCASTSD X10, Y10
	VADDPD ·lines(SB), Y10, Y10
	VBROADCASTSD ·one(SB), Y13
	VBROADCASTSD ·four(SB), Y14

block:
	PLACES
	LEAQ (R9)(R11*1), DX
	LEAQ (R9)(R11*2), BX
	LEAQ (DX)(R11*2), SI
	VMULPD Y4, Y9, Y4
	VMULPD Y5, Y9, Y5
	VADDPD (R9)(R8*8), X4, X6
	VMOVUPD X6, (R9)(R8*8)
	VEXTRACTF128 $1, Y4, X4
	VADDPD (DX)(R10*8), X5, X7
	VMOVUPD X7, (DX)(R10*8)
	VEXTRACTF128 $1, Y5, X5
	VADDPD (BX)(R12*8), X4, X6
	VMOVUPD X6, (BX)(R12*8)
	VADDPD (SI)(R13*8), X5, X7
	VMOVUPD X7, (SI)(R13*8)
	VADDPD Y14, Y10, Y10
	LEAQ (R9)(R11*4), R9
	DECQ CX
	JNZ block
	VZEROUPPER
	RET

// PLACE sets BX to the pixel in line AX, in bytes, and Y5 to part, Y4 to 1 - part. X11 is the slope,
// X12 the place in line 0, X13 one.
#define PLACE \
	VXORPD X0, X0, X0 \
	VCVTSI2SDQ AX, X0, X0 \
	VMULSD X0, X11, X0 \
	VADDSD X12, X0, X0 \
	VCVTTSD2SIQ X0, BX \
	VXORPD X1, X1, X1 \
	VCVTSI2SDQ BX, X1, X1 \
	VSUBSD X1, X0, X5 \
	VSUBSD X5, X13, X4 \
	VBROADCASTSD X5, Y5 \
	VBROADCASTSD X4, Y4 \
	SHLQ $6, BX

// func gather8(sums *[Lanes]float64, plane *float64, at, slope float64, from, to, stride int)
TEXT ·gather8(SB), NOSPLIT, $0-56
	MOVQ sums+0(FP), DI
	MOVQ plane+8(FP), R9
	VMOVSD at+16(FP), X12
	VMOVSD slope+24(FP), X11
	MOVQ from+32(FP), AX
	MOVQ to+40(FP), CX
	MOVQ stride+48(FP), R11
	VMOVSD ·one(SB), X13
	VMOVUPD (DI), Y8
	VMOVUPD 32(DI), Y9

line:
	PLACE
	VMULPD (R9)(BX*1), Y4, Y2
	VMULPD 32(R9)(BX*1), Y4, Y3
	VMULPD 64(R9)(BX*1), Y5, Y6
	VMULPD 96(R9)(BX*1), Y5, Y7
	VADDPD Y6, Y2, Y2
	VADDPD Y7, Y3, Y3
	VADDPD Y2, Y8, Y8
	VADDPD Y3, Y9, Y9
	ADDQ R11, R9
	INCQ AX
	CMPQ AX, CX
	JLT line
	VMOVUPD Y8, (DI)
	VMOVUPD Y9, 32(DI)
	VZEROUPPER
	RET

// func spread8(values *[Lanes]float64, plane *float64, at, slope float64, from, to, stride int)
TEXT ·spread8(SB), NOSPLIT, $0-56
	MOVQ values+0(FP), DI
	MOVQ plane+8(FP), R9
	VMOVSD at+16(FP), X12
	VMOVSD slope+24(FP), X11
	MOVQ from+32(FP), AX
	MOVQ to+40(FP), CX
	MOVQ stride+48(FP), R11
	VMOVSD ·one(SB), X13
	VMOVUPD (DI), Y8
	VMOVUPD 32(DI), Y9

line:
	PLACE
	VMULPD Y8, Y4, Y2
	VMULPD Y9, Y4, Y3
	VMULPD Y8, Y5, Y6
	VMULPD Y9, Y5, Y7
	VADDPD (R9)(BX*1), Y2, Y2
	VADDPD 32(R9)(BX*1), Y3, Y3
	VADDPD 64(R9)(BX*1), Y6, Y6
	VADDPD 96(R9)(BX*1), Y7, Y7
	VMOVUPD Y2, (R9)(BX*1)
	VMOVUPD Y3, 32(R9)(BX*1)
	VMOVUPD Y6, 64(R9)(BX*1)
	VMOVUPD Y7, 96(R9)(BX*1)
	ADDQ R11, R9
	INCQ AX
	CMPQ AX, CX
	JLT line
	VZEROUPPER
	RET
